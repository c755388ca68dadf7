// Empty: the package's libgomp.so.1 has only its name (python/tilewright/_openmp.py).
