/*
 * learned_report.h: reports `learned` for statistics. Writes nothing while `learned` is not on.
 */
#ifndef CALM_SITE_LEARNED_REPORT_H
#define CALM_SITE_LEARNED_REPORT_H

#include "base/text.h"

void learned_report_text(struct text *text);

/* As a member of a JSON object: "learned":{...}, and a comma. */
void learned_report_json(struct text *text);

#endif
