"""LangChain: a retriever, and tools for agents.

>>> from outrider.langchain import OutriderRetriever, OutriderToolkit
>>> documents = OutriderRetriever(k=5).invoke("does aspirin harm the liver?")  # doctest: +SKIP
>>> tools = OutriderToolkit(max_tokens=1_000).get_tools()  # doctest: +SKIP
"""

from outrider.langchain.retriever import OutriderRetriever, make_document
from outrider.langchain.tools import AnalyzeTool, LibraryTool, OutriderToolkit, SearchTool, SystematicTool

__all__ = ["AnalyzeTool", "LibraryTool", "OutriderRetriever", "OutriderToolkit", "SearchTool", "SystematicTool", "make_document"]
