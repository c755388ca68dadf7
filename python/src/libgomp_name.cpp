// Nothing: the library libgomp.so.1 of the package has that name alone (python/tilewright/_openmp.py).
