//! One link as a pure model in virtual time: rate, delay, loss, queue, schedule.
