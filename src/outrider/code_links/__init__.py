"""Links between papers and their repositories: where they are read, and what makes one own"""
