"""The library on LanceDB: records, vectors, edges, exact indexes, fusion, maintenance."""
