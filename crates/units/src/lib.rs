//! Rate, Bytes, Duration and Fraction: parse, print, convert.
