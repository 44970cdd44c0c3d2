# What an attacker can do
#
# The trade-off curve of any randomizer with ε0 = 4 among 1,000 users: true positives against false positives, on two logarithmic axes.
shuffledp tradeoff --epsilon-local 4 --users 1000 --against mixture --log --plot tradeoff.png
