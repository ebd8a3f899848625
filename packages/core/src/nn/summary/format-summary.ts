import type { ModelSummary, ModuleSummary } from './model-summary.ts';

/** Prints a row for each module, indented by its depth in the model, and the totals. */
export function formatSummary(summary: ModelSummary): string {
  const { modules, parameters, trainedParameters, parameterBytes, flops } = summary;
  const wasRun = modules.some(({ calls }) => calls > 0);
  const rows = modules.map((module) => rowOf(module, wasRun));
  const head = [
    'module',
    ...(wasRun ? ['output'] : []),
    'parameters',
    ...(wasRun ? ['FLOPs'] : []),
  ];
  const frozen = parameters - trainedParameters;
  const total = [
    `${grouped(parameters)} parameters in ${scaled(parameterBytes, 'B')}`,
    ...(frozen === 0 ? [] : [`${grouped(frozen)} of them frozen`]),
    ...(wasRun ? [`${scaled(flops, 'FLOPs')} forward`] : []),
  ];
  return `${table([head, ...rows])}\n\n${total.join(', ')}`;
}

function rowOf(
  { path, type, output, calls, parameters, flops }: ModuleSummary,
  wasRun: boolean,
): string[] {
  const parts = path.split('.');
  const name = path === '' ? type : `${'  '.repeat(parts.length)}${parts.at(-1)}: ${type}`;
  const times = calls > 1 ? ` ×${calls}` : '';
  const run = wasRun ? [`${output}${times}`] : [];
  return [name, ...run, grouped(parameters), ...(wasRun ? [scaled(flops, '')] : [])];
}

/** Aligns columns. The first column and that of shapes are text, and the others are numbers. */
function table(rows: readonly (readonly string[])[]): string {
  const columns = rows[0]?.length ?? 0;
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  const numbersFrom = columns === 2 ? 1 : 2;
  return rows
    .map((row) =>
      row
        .map((cell, column) => {
          const width = widths[column] ?? 0;
          return column < numbersFrom ? cell.padEnd(width) : cell.padStart(width);
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Formats 1234567 as 1,234,567. */
function grouped(count: number): string {
  return String(count).replaceAll(/\B(?=(\d{3})+$)/g, ',');
}

/** Formats 1234567 as 1.23 M, followed by the unit. */
function scaled(count: number, unit: string): string {
  const prefixes = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
  const power = count < 1000 ? 0 : Math.min(Math.floor(Math.log10(count) / 3), prefixes.length - 1);
  const number = count / 1000 ** power;
  const digits =
    power === 0 ? String(count) : number.toFixed(number < 10 ? 2 : number < 100 ? 1 : 0);
  return `${digits} ${prefixes[power] ?? ''}${unit}`.trimEnd();
}
