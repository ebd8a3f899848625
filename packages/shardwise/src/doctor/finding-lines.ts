import type { Colour, Paint } from '../terminal/paint.ts';
import { printable } from '../text/printable.ts';
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
      const [first = '', ...rest] = wrap(printable(found), width);
      const advice = todo === undefined ? [] : wrap(printable(todo), width - 2);
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

/** Breaks a text at spaces. A word that is longer than a line is cut. */
function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (longer.length <= width) {
      line = longer;
      continue;
    }
    if (line !== '') lines.push(line);
    let rest = word;
    for (; rest.length > width; rest = rest.slice(width)) lines.push(rest.slice(0, width));
    line = rest;
  }
  return [...lines, line];
}
