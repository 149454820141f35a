"""Links between papers and repositories, and what makes one own"""
