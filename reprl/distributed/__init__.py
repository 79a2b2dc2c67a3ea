"""Training over several processes, on one machine or many: ranks that act as one learner.

`placement` chooses how many, `launch` starts and watches them, `environment` says which one this
process is, `exchange` carries their numbers, `ranks` makes shares of a minibatch one minibatch.
"""
