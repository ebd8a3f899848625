import type { Finding, Verification } from './finding.ts';

/** Says in lines what was found. */
export function describeVerification(verification: Verification): readonly string[] {
  const { finding, strategy, ranks, steps, compared, notCompared } = verification;
  const run = `${strategy} on ${ranks} ${ranks === 1 ? 'rank' : 'ranks'}`;
  const left = notCompared.length === 0 ? [] : [`Not compared: ${notCompared.join(', ')}`];
  if (finding === null) {
    return [
      `${run} trains as one rank does: ${compared} tensors of ${steps} ${steps === 1 ? 'step' : 'steps'} differ by no more than rounding`,
      ...left,
    ];
  }
  const when = finding.step === 0 ? 'before the first step' : `in step ${finding.step}`;
  return [`${run} differs from one rank ${when}`, '', ...describeFinding(finding), ...left];
}

function describeFinding(finding: Finding): readonly string[] {
  const { module, moduleClass, layout, actions, hint, rank, index, found, expected, tolerance } =
    finding;
  const place = `${module === '' ? 'the model' : module}${moduleClass === '' ? '' : ` (${moduleClass})`}`;
  const rows: (readonly [string, string])[] = [];
  if (!Number.isNaN(found)) {
    const element = index.length === 0 ? 'the value' : `element [${index.join(', ')}]`;
    const name = finding.kind === 'loss' ? 'mean over the ranks' : `${element} on rank ${rank}`;
    rows.push([name, format(found)], ['on one rank', format(expected)]);
    if (tolerance > 0) rows.push(['rounding explains', tolerance.toExponential(1)]);
  }
  if (layout !== '') rows.push(['layout', layout]);
  for (const [at, action] of actions.entries()) rows.push([at === 0 ? 'the plan' : '', action]);
  if (hint !== '') rows.push(['what it looks like', hint]);
  const width = Math.max(...rows.map(([name]) => name.length));
  return [
    `  ${place}: ${whatOf(finding)}`,
    ...rows.map(([name, text]) => `    ${name.padEnd(width)}  ${text}`),
  ];
}

function whatOf({ kind, tensor, ranks }: Finding): string {
  const on = ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${ranks.join(', ')}`;
  const texts: Readonly<Record<Finding['kind'], string>> = {
    initial: `${tensor} has another initial value on ${on}`,
    batch: `${on} have the same inputs`,
    updates: `${on} took another way`,
    output: `the output differs on ${on}`,
    loss: 'the loss differs',
    gradient: `the gradient of ${tensor} differs on ${on}`,
    'kept gradient': `the gradient of ${tensor} was not cleared on ${on}`,
    parameter: `${tensor} differs after the update on ${on}`,
    buffer: `the buffer ${tensor} differs on ${on}`,
  };
  return texts[kind];
}

function format(value: number): string {
  return Number.isFinite(value) ? value.toPrecision(9) : String(value);
}
