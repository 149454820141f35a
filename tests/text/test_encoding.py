"""Encodings from before UTF-8, guessed from the letters that a text would have."""

from __future__ import annotations

import pytest

from outrider.text.encoding import Evidence, decode_text

TEXTS = [
    ("Évaluation de l’efficacité d’un traitement précoce chez les patients âgés : étude contrôlée randomisée à Genève",
     "cp1252 mac_roman cp850"),
    ("Über die Länge der Straße: größere Häuser für ältere Mütter in München, Prüfung der Wirksamkeit", "cp1252 mac_roman cp850"),
    ("Evaluación del tratamiento en niños pequeños con asma crónica: un estudio español en Málaga y Logroño", "cp1252 mac_roman cp850"),
    ("Avaliação da intervenção em crianças com pneumonia: revisão sistemática não randomizada em São Paulo", "cp1252 mac_roman"),
    ("Undersøgelse af børns sundhed på Fyn: en kohorteundersøgelse på tværs af årene i København", "cp1252 mac_roman"),
    ("Långtidsuppföljning av äldre patienter med hjärtsvikt i Göteborg och Malmö: en översikt", "cp1252 mac_roman cp850"),
    ("Sydämen vajaatoiminnan hoito iäkkäillä potilailla: järjestelmällinen katsaus Jyväskylässä", "cp1252"),
    ("Wpływ witaminy D na gęstość kości u osób starszych: żółtaczka, łódź i źródła w Śląsku", "cp1250 iso8859_2"),
    ("Vliv časné léčby na přežití pacientů s těžkým onemocněním: český přehled příběhů a žádostí", "cp1250 iso8859_2"),
    ("A korai kezelés hatása az idős betegek túlélésére: őszi és téli üdülők, műtét előtti vizsgálatok", "cp1250 iso8859_2"),
    ("Yaşlı hastalarda erken tedavinin sağkalım üzerine etkisi: İstanbul'da çok merkezli çalışma, güçlü öğrenciler", "cp1254"),
    ("Ankstyvo gydymo poveikis vyresnio amžiaus žmonėms: šventės, įvairūs žodžiai ir ąžuolų žievė", "cp1257"),
    ("Влияние витамина D на плотность костной ткани у пожилых людей", "cp1251 koi8_r cp866 iso8859_5"),
    ("Вплив раннього лікування на виживання пацієнтів: український огляд її історії", "cp1251"),
    ("Η επίδραση της πρώιμης θεραπείας στην επιβίωση ηλικιωμένων ασθενών στην Ελλάδα", "cp1253"),
    ("השפעת טיפול מוקדם על הישרדות חולים קשישים בישראל", "cp1255"),
    ("تأثير العلاج المبكر على بقاء المرضى المسنين في المستشفى", "cp1256"),
    ("这是一个关于机器学习的中文文本，用于测试编码检测。研究表明，早期干预可以显著改善患者的预后。", "gb18030"),
    ("機械学習に関する日本語の文章です。患者の予後を改善することが示された。カタカナとひらがな", "shift_jis euc_jp"),
    ("이것은 기계 학습에 관한 한국어 텍스트입니다. 환자의 예후를 개선할 수 있음을 보여준다", "euc_kr"),
    ("Perché la qualità della vita è più bassa nelle città: un’analisi sull’età", "cp1252 mac_roman"),
    ("Áhrif snemmbærrar meðferðar á lifun aldraðra sjúklinga: þýðing og öryggi", "cp1252"),
    ("Effekten av tidlig behandling på overlevelse hos eldre pasienter i Tromsø og Ålesund: ærlig", "cp1252 mac_roman"),
    ("Effecten van vroege behandeling bij patiënten in België: een coördinerende reünie", "cp1252 mac_roman cp850"),
    ("Vplyv včasnej liečby na prežívanie pacientov: ťažké ochorenia, ľudia, dôležitá štúdia", "cp1250 iso8859_2"),
    ("Učinak ranog liječenja na preživljenje starijih bolesnika: čvrsti dokazi iz Đakova i Šibenika", "cp1250 iso8859_2"),
    ("Učinek zgodnjega zdravljenja na preživetje starejših bolnikov: študija v Ljubljani in Škofji Loki", "cp1250 iso8859_2"),
    ("Varajase ravi mõju eakate patsientide elulemusele: süstemaatiline ülevaade, šokk ja žürii", "cp1257"),
    ("Agrīnas ārstēšanas ietekme uz vecāku pacientu izdzīvošanu: pētījums Rīgā, ķirurģija un ļaundabīgi audzēji", "cp1257"),
    ("Влияние на ранното лечение върху преживяемостта на възрастни пациенти: преглед", "cp1251 koi8_r cp866"),
    ("Утицај раног лечења на преживљавање старијих болесника: преглед литературе", "cp1251"),
    ("Müller, Jørgensen, Nuñez, Sørlie, François, Gonçalves, Åström, Þórsson, Béla", "cp1252 mac_roman"),
    ("ÉTUDE ÉPIDÉMIOLOGIQUE DES MALADIES RÉNALES À GENÈVE: RÉSULTATS", "cp1252 mac_roman"),
    ("The “effect” of early treatment – don’t stop… patients’ survival", "cp1252 mac_roman"),
    ("ВЛИЯНИЕ ВИТАМИНА НА ПЛОТНОСТЬ КОСТНОЙ ТКАНИ", "cp1251"),
    ("تأثیر درمان زودهنگام بر بقای بیماران سالمند در بیمارستان", "cp1256"),
    ("這是一個關於機器學習的中文文本，早期干預可以顯著改善患者的預後", "big5 gb18030"),
]  # fmt: skip
ENGLISH = "The effect of early treatment on survival in elderly patients: a randomised controlled trial of vitamin D"


@pytest.mark.parametrize(("text", "encoding"), [(text, encoding) for text, encodings in TEXTS for encoding in encodings.split()])
def test_a_text_is_read_as_it_was_written(text: str, encoding: str) -> None:
    """Also where most of a file is English."""
    table = "".join(f"{number},{text} {number}\n{number},{ENGLISH}\n" for number in range(20))
    decoded = decode_text(table.encode(encoding, errors="ignore"))
    assert decoded.text == table.encode(encoding, errors="ignore").decode(encoding)
    assert decoded.encoding.evidence is Evidence.GUESS
