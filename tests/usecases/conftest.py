from support.small_library import own_settings, shelved

__all__ = ["own_settings", "shelved"]
