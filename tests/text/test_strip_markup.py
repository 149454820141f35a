r"""Folding of texts: one form for every way of writing the same words."""

from __future__ import annotations

import time
import unicodedata
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text.strip_markup import IGNORABLE, fold_text
from outrider.text.words import tokens


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("K<sub>Ca</sub> channels", "KCa channels"), ("K<sub>Ca</sub>3.1", "KCa3.1"), ("K&lt;sub&gt;Ca&lt;/sub&gt;", "KCa"),
        ("K&amp;lt;sub&amp;gt;Ca&amp;lt;/sub&amp;gt;", "KCa"), ("<i>In vitro</i> <b>study</b>", "In vitro study"),
        ('<jats:italic>E. coli</jats:italic> and <span class="x" id=y>mice</span>', "E. coli and mice"),
        ("<p>one</p><p>two</p>three<br/>four", " one  two three four"),
        ("<mml:msub>\n <mml:mi>K</mml:mi>\n <mml:mi>Ca</mml:mi>\n</mml:msub> of", "KCa of"),
        ("Caf&eacute; &#946;-lactam &#xb5;m &unknown; R&D", "Café β-lactam μm &unknown; R&D"),
        ("$K_{Ca}$ and H$_2$O at $37^{\\circ}C$", "KCa and H2O at 37,C"), (r"$ \mathrm{K}_{\mathrm{Ca}} $", "KCa"),
        (r"$\alpha$-synuclein, $$\Delta G$$", "α-synuclein, ΔG"), (r"\alpha-synuclein", "α-synuclein"),
        (r"M{\"u}ller, M\"uller, M\"{u}ller, M{\"{u}}ller", "Müller, Müller, Müller, Müller"),
        (r"na{\"\i}ve Stra{\ss}e {\O}rsted \L{}\'od\'z", "naïve Straße Ørsted Łódź"),
        (r"\c{C}elik {\c c}a Jovanovi\'c Espa\~na", "Çelik ça Jovanović España"),
        (r"\textit{a \textbf{b} c} {\em d} \mathrm{Ca}", "a b c d Ca"), (r"{DNA} of {mRNA} {New York} {K}CNQ", "DNA of mRNA New York KCNQ"),
        ("soft\u00adhyphen zero\u200bwidth \ufeffmark \u2066iso\u2069late", "softhyphen zerowidth mark isolate"),
        ("nai\u0308ve A\u030angstro\u0308m m\u0304", "naïve Ångström m"), ("ﬁne eﬀect ＦＵＬＬ １２", "fine effect FULL 12"),
        ("H₂O x² Ca²⁺ 10⁻³", "H2O x2 Ca2⁺ 10⁻3"), ("𝐀𝐁 ℌ", "AB H"),
    ],
)  # fmt: skip
def test_a_text_is_folded_to_its_plain_form(written: str, plain: str) -> None:
    assert fold_text(written) == unicodedata.normalize("NFC", plain)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("schemes for<i>ab initio</i>total-energy", "schemes for ab initio total-energy"), ("Models Using<b>lme4</b>", "Models Using lme4"),
        ("history of<i>SHELX</i>refinement", "history of SHELX refinement"), ("with<em>n</em>vertices", "with n vertices"),
        ("using<jats:italic>R</jats:italic>", "using R"), ("<i>Eco</i>RI <i>Hin</i>dIII", "EcoRI HindIII"),
        ("<b>B</b>ackground", "Background"),
        ("<i>n</i>th <i>p</i>53 m<i>TOR</i> <i>N</i>-acetyl", "nth p53 mTOR N-acetyl"),
        ("<i>ATP</i>ases <i>Salmonella</i>s", "ATPases Salmonellas"),
        ("<scp>mRNA</scp>s of Mc<scp>DONALD</scp>", "mRNAs of McDONALD"), ("for <i>ab initio</i> use", "for ab initio use"),
    ],
)  # fmt: skip
def test_emphasis_parts_words_where_a_space_was_lost(written: str, plain: str) -> None:
    """Titles of Crossref and OpenAlex lose spaces around `<i>` and `<b>`; within a word nothing is parted."""
    assert fold_text(written) == plain


@pytest.mark.parametrize(
    "text",
    [
        "p<0.05 and n>3", "a<b>c", "p<a and b>c", "<LOD>", "<https://example.org/a>", "<1203::AID-CNCR6>3.0.CO;2-A", "if (x < y && y > z)",
        "costs $5 and $10", "US$5-$10", "$HOME/bin", "R&D; AT&T", r"C:\temp\new", r"don\'t, it\'s, we\'re", "{}", "{?} {#} {*3}", "x{0}y",
        "else{return}", "aspirin™ 20℃ ½ ①", "naïve β Ж 東京 한국어", "",
    ],
)  # fmt: skip
def test_what_is_no_markup_stays(text: str) -> None:
    assert fold_text(text) == text


PAIRS = [
    ("Na<sup>+</sup>/K<sup>+</sup>-ATPase", "Na+/K+-ATPase"),
    ('<title>The <italic toggle="yes">BRCA1</italic> gene</title>', "The BRCA1 gene"),
    ("&lt;scp&gt;l&lt;/scp&gt;-DOPA", "l-DOPA"), ("5-HT&lt;sub&gt;2A&lt;/sub&gt; receptors", "5-HT2A receptors"),
    ("Sj&ouml;gren&rsquo;s", "Sjögren’s"), (r"Sj\"{o}gren", "Sjögren"), (r"Gr{\"u}neisen parameter", "Grüneisen parameter"),
    (r"{\AA}ngstr{\"o}m", "Ångström"), ("$^{18}$F-FDG PET", "18F-FDG PET"), (r"$\mathrm{CO}_2$ capture", "CO2 capture"),
    (r"IFN-$\gamma$", "IFN-γ"), ("Ca²⁺ channel", "Ca2+ channel"), ("ﬂuoride eﬃcacy", "fluoride efficacy"),
    ("<mml:math><mml:msub><mml:mi>T</mml:mi><mml:mi>c</mml:mi></mml:msub></mml:math>", "Tc"),
    ("\ufefftitle co\u2060operate", "title cooperate"),
    ("می\u200cخواهم", "میخواهم"), ("Dvor\u030ca\u0301k", "Dvořák"), ("\u1112\u1161\u11ab", "한"), ("か\u3099", "が"), ("ｶﾞｽ", "ガス"),
    ("H&#8322;O&#x2082;", "H2O2"), ("p &lt; 0.05 & n > 3", "p < 0.05 & n > 3"), ("a<b and b>c", "a b and b c"),
    ("costs $5 and $10 per month", "costs 5 and 10 per month"), (r"\emph{in vitro} and {\it in vivo}", "in vitro and in vivo"),
    (r"TiO\textsubscript{2}", "TiO2"), (r"Poincar\'e inequality", "Poincaré inequality"), (r"Erd\H{o}s \v{C}ech", "Erdős Čech"),
    (r"Fran\c{c}ois Mali\'nski", "François Maliński"), (r"don\'t", "don't"), ("10<sup>6</sup>", "106"), ("K<SUB>ATP</SUB>", "KATP"),
    ("O<inf>2</inf>", "O2"), ("&amp;amp;beta;-blocker", "β-blocker"), ("x\u0305", "x"),
    ("<jats:p>First.</jats:p><jats:p>Second.</jats:p>", "First. Second."), (r"C:\temp\new", "c temp new"),
    (r"\(\beta\)-amyloid", "β-amyloid"),
    (r"{\o}rsted Stra{\ss}e", "ørsted Straße"), ("E$_{max}$", "Emax"), ("$n=12$ patients", "n=12 patients"), ("K&shy;Ca", "KCa"),
    ('<inline-formula><tex-math>$\\beta$</tex-math></inline-formula>-catenin', 'β-catenin'), ('Na<sub>v</sub>1.7', 'Nav1.7'),
    ('<sup>99m</sup>Tc', '99mTc'), ('CD4<sup>+</sup> T', 'CD4+ T'), ('<i>N</i>,<i>N</i>-dimethyl', 'N,N-dimethyl'),
    ('&#x03B1;-synuclein', 'α-synuclein'), ('H&lt;inf&gt;2&lt;/inf&gt;O&lt;inf&gt;2&lt;/inf&gt;', 'H2O2'), ('\\ce{H2O}', 'H2O'),
    ('$\\mathrm{H}_2\\mathrm{O}$', 'H2O'), ('$\\text{PM}_{2.5}$', 'PM2.5'), ('PM<sub>2.5</sub>', 'PM2.5'),
    ("{\\'E}tude \\'{E}tude", 'Étude Étude'), ("Garc{\\'\\i}a", 'García'), ("Ho\\v{r}ej\\v{s}\\'{\\i}", 'Hořejší'),
    ('{\\L}ukasiewicz', 'Łukasiewicz'), ('S{\\o}rensen--Dice', 'Sørensen–Dice'), ('Schr{\\"o}dinger', 'Schrödinger'),
    ('$\\mathcal{O}(n \\log n)$', 'O(n log n)'), ('$L^p$ spaces', 'Lp spaces'), ('$\\ell_1$ regularization', 'ℓ1 regularization'),
    ('$k$-means', 'k-means'), ('$\\mathbb{R}^n$', 'Rn'), ('$\\sqrt{2}$', '√2'), ('10$\\times$ Genomics', '10× Genomics'),
    ('a\xa0b', 'a b'), ('co‑operation', 'co-operation'), ('Ⅳ', 'IV'), ('Å', 'Å'), ('5㎍', '5μg'), ('İstanbul', 'İstanbul'),
    ('&amp;#8211;', '–'), ('<![CDATA[Title]]>', 'Title'), ('stroke<xref rid="b1">1</xref>', 'stroke 1'), ('a<BR>b', 'a b'),
    ('50\\% of', '50% of'), ("``quoted''", '“quoted”'), ('Poly(\\textit{N}-iso)', 'Poly(N-iso)'), ('37$^\\circ$C', '37°C'),
    ('a<!-- note -->b c', 'ab c'), ("<span style='x'>IL</span>-6", 'IL-6'), ('Fe&lt;sup&gt;3+&lt;/sup&gt;', 'Fe3+'),
    ('<ce:italic>p</ce:italic>-value', 'p-value'), ('$\\max_i x_i$', 'max i xi'),
    ('<math><mrow><mi>α</mi></mrow></math>-helix', 'α-helix'), ('zero\u200dwidth', 'zerowidth'), ('cafés', 'cafés'),
    ('T\u200bitle', 'Title'), ('Erd{\\H o}s', 'Erdős'), ('œuvre &oelig;uvre', 'oeuvre oeuvre'),
]  # fmt: skip


@pytest.mark.parametrize(("written", "plain"), PAIRS)
def test_both_ways_of_writing_have_the_same_words(written: str, plain: str) -> None:
    assert tokens(written) == tokens(plain)


LETTERS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x24F) | st.sampled_from("ΆέώЙёếạ한글がパ"), max_size=40)
PLAIN = st.text(st.sampled_from("abcKCaéßβЖ東2 -.,()'"), max_size=40)
INVISIBLE = "\u00ad\u034f\u061c\u200b\u200c\u200d\u200e\u202a\u2060\u2066\ufe0f\ufeff"
MARKUP = st.lists(st.sampled_from(["a", "K", "2", " ", "<", ">", "sub", "i", "/", "&", "amp;", "lt;", "#", ";", "$", "_", "{", "}", "\\",
                                   "alpha",
                                   "'", '"', "e", "\u0301", "\u00ad", "²", "ﬁ", "mml:", "\n", "="]), max_size=24).map("".join)  # fmt: skip


@given(LETTERS)
def test_composed_and_decomposed_texts_have_the_same_words(text: str) -> None:
    assert tokens(unicodedata.normalize("NFD", text)) == tokens(unicodedata.normalize("NFC", text))


@given(PLAIN, st.data())
def test_invisible_characters_change_nothing(text: str, data: st.DataObject) -> None:
    for _ in range(3):
        place = data.draw(st.integers(0, len(text)))
        with_more = text[:place] + data.draw(st.sampled_from(INVISIBLE)) + text[place:]
        assert tokens(with_more) == tokens(text)


@given(PLAIN, st.data())
def test_tags_and_entities_change_nothing(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    name = data.draw(st.sampled_from(["sub", "sup", "jats:sup", "inf", "scp", "SUB"]))
    marked = f"{text[:start]}<{name}>{text[start:end]}</{name}>{text[end:]}"
    assert tokens(marked) == tokens(text)
    assert tokens(escape(marked)) == tokens(text)
    assert tokens("".join(f"&#{ord(char)};" for char in text)) == tokens(text)


@given(st.text(max_size=60) | MARKUP)
def test_any_text_is_folded(text: str) -> None:
    """Nothing invisible is left, and words before it stay."""
    assert not IGNORABLE.search(fold_text(text))
    assert tokens(f"heart\n\n{text}")[:1] == ["heart"]


@given(st.text(st.characters(max_codepoint=127, exclude_characters="<&\\${"), max_size=80))
def test_plain_ascii_is_returned_as_it_is(text: str) -> None:
    assert fold_text(text) is text


@pytest.mark.parametrize(
    "text",
    ["&amp;" * 40_000, "<" * 100_000, "<i " * 50_000, "$a" * 50_000, "{" * 100_000, "\\textit{" * 20_000, "\\'" * 50_000,
     "<mml:mi> " * 20_000,
     "<i a='" * 20_000, "&#" * 50_000, "\\(" * 50_000, "a_{" * 50_000, "e\u0301\u00ad" * 30_000, "<a>" * 40_000,
     "{\\rm" + " " * 16_000, "-->" + "<!--" * 20_000, "<![CDATA[" * 10_000],
)  # fmt: skip
def test_hostile_texts_take_linear_time(text: str) -> None:
    """Four times the text takes far less than sixteen times the time."""

    def measure(sample: str) -> float:
        started = time.process_time()
        fold_text(sample)
        return time.process_time() - started

    short, long = min(measure(text[: len(text) // 4]) for _ in range(3)), min(measure(text) for _ in range(2))
    assert long < 9 * short + 0.05
