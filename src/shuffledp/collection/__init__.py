"""Running a plan: encode → materialise once → shuffle → aggregate, over Arrow record batches."""
