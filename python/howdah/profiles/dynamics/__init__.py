"""Dynamics of throughput: Poincaré maps and Lyapunov exponents beside surrogates.

Section 4 of "TCP Throughput Profiles Using Measurements over Dedicated Connections" (HPDC 2017). Functions
of arrays alone: ``traces`` makes the arrays from samples of ``TCP_INFO``, ``verdict.describe`` says all there
is to say of a trace, ``lyapunov.relation`` sets exponents against throughput.
"""
