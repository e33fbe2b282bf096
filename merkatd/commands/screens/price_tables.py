"""The tables of present and past prices."""

from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable
from merkatd.commands.texts.empty_texts import NO_PRICES

NOW = ScreenTable(
    "PRICE",
    (
        Column("MARKET", "market", ColumnFormat.TEXT, "the market", least=6),
        Column("RESOURCE", "resource", ColumnFormat.TEXT, "cpu, memory, network or disk"),
        Column(
            "PRICE",
            "price",
            ColumnFormat.CREDITS,
            "credits per UNIT; - if no price clears the market",
            kept=True,
        ),
        Column(
            "UNIT",
            "unit",
            ColumnFormat.TEXT,
            "what the price is for: core-hour, GiB-hour, Mbit/s-hour, MiB/s-hour",
            kept=True,
        ),
        Column(
            "BEFORE", "before", ColumnFormat.CREDITS, "the price one period earlier", optional=True
        ),
        Column(
            "LEAST",
            "least",
            ColumnFormat.CREDITS,
            "the lowest price of the last 60 periods",
            optional=True,
        ),
        Column(
            "MOST",
            "most",
            ColumnFormat.CREDITS,
            "the highest price of the last 60 periods",
            optional=True,
        ),
        Column(
            "TREND",
            "trend",
            ColumnFormat.TREND,
            "the prices of the last 60 periods, oldest first",
            least=10,
        ),
        Column("PERIOD", "period", ColumnFormat.WHOLE, "the number of the period", default=False),
        Column("TIME", "at_s", ColumnFormat.TIME, "when the price was announced", default=False),
    ),
    NO_PRICES,
)
HISTORY = ScreenTable(
    "PRICE",
    (
        Column("PERIOD", "period", ColumnFormat.WHOLE, "the number of the period"),
        Column("TIME", "at_s", ColumnFormat.TIME, "when the period started", optional=True),
        Column("MARKET", "market", ColumnFormat.TEXT, "the market", least=6),
        Column("CPU", "cpu", ColumnFormat.CREDITS, "credits per core-hour"),
        Column("MEMORY", "memory", ColumnFormat.CREDITS, "credits per GiB-hour"),
        Column(
            "NETWORK",
            "network",
            ColumnFormat.CREDITS,
            "credits per Mbit/s-hour",
            sometimes=True,
        ),
        Column("DISK", "disk", ColumnFormat.CREDITS, "credits per MiB/s-hour", sometimes=True),
        Column(
            "SUPPLY",
            "supply",
            ColumnFormat.TEXT,
            "the change of the supply of credits in that period, and its reason",
            least=20,
            sometimes=True,
        ),
    ),
    NO_PRICES,
)
