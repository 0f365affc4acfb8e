"""The rules that an administrator sets for all users of a host, and the trace that copies leave."""
