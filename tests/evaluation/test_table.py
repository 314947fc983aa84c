from rl4co_prompt.evaluation import tables


def test_narrow_terminals_get_the_table_in_parts(result):
    table = tables.gap_table(result)
    wide, narrow = table.rich(200), table.rich(45)

    assert len(wide) == 1
    assert len(narrow) > 1
    assert all(part.columns[0].header == "method" for part in narrow)
    headers = [c.header for part in narrow for c in part.columns[1:]]
    assert headers == table.columns[1:]
