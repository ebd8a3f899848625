import type { Colour, Paint } from '../terminal/paint.ts';
import { printable } from '../text/printable.ts';
import { wrapText } from '../text/wrap-text.ts';
import { type Finding, type Level, levels, worstLevel } from './host/finding.ts';

/** Signs beside the colours, for terminals and readers without them. */
const signs = { green: '✓', yellow: '!', red: '✗' } as const satisfies Record<Level, string>;
const verdicts = {
  green: 'all is well',
  yellow: 'it works; see the lines with !',
  red: 'training fails here; see the lines with ✗',
} as const satisfies Record<Level, string>;
const colours = { green: 'green', yellow: 'yellow', red: 'red' } as const satisfies Record<
  Level,
  Colour
>;

const MAX_COLUMNS = 100;
const NAME_COLUMNS = 16;

/** Returns the lines that show findings in a terminal of this width. */
export function findingLines(
  findings: readonly Finding[],
  columns: number,
  paint: Paint,
): readonly string[] {
  const width = Math.min(columns, MAX_COLUMNS) - NAME_COLUMNS - 1;
  const indent = ' '.repeat(NAME_COLUMNS);
  const worst = worstLevel(findings);
  const counts = levels
    .map((level) => `${findings.filter((finding) => finding.level === level).length} ${level}`)
    .join(', ');
  return [
    ...findings.flatMap(({ name, level, found, todo }) => {
      const sign = paint(signs[level], colours[level]);
      const head = `${sign} ${printable(name).padEnd(NAME_COLUMNS - 2)}`;
      const [first = '', ...rest] = wrapText(printable(found), width);
      const advice = todo === undefined ? [] : wrapText(printable(todo), width - 2);
      return [
        `${head}${first}`,
        ...rest.map((line) => `${indent}${line}`),
        ...advice.map(
          (line, index) =>
            `${indent}${paint(`${index === 0 ? '→' : ' '} ${line}`, colours[level])}`,
        ),
      ];
    }),
    '',
    `${paint(signs[worst], colours[worst])} ${counts}: ${verdicts[worst]}`,
  ];
}
