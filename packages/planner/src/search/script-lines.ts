import type { RunLayout, Workload } from '../cost/run-layout.ts';
import { microbatchesOf, offloadText, recomputeText } from '../cost/run-layout.ts';

/** What a budget of a script needs to choose which values are kept, computed again, and offloaded. */
interface ScriptBudget {
  /** The bytes that a pass may take on a rank, besides states. */
  readonly passBytes: number;
  readonly flopsPerSecond: number;
  /** Of the link to the memory of the host. Null: nothing is offloaded. */
  readonly pageBytesPerSecond: number | null;
}

/** Writes the lines of a training script that realise a layout. */
export function scriptLines(
  layout: RunLayout,
  workload: Workload,
  given?: ScriptBudget,
): readonly string[] {
  const { dataParallel, tensorParallel, pipelineParallel, expertParallel } = layout;
  const microbatches = microbatchesOf(layout, workload);
  const strategies = [
    ...(tensorParallel > 1 ? ['dist.tensorParallel()'] : []),
    ...(expertParallel > 1 ? ['dist.expertParallel()'] : []),
    ...(pipelineParallel > 1 ? [pipelineText(layout, microbatches)] : []),
    ...(dataParallel > 1 || tensorParallel * pipelineParallel === 1 ? [dataText(layout)] : []),
  ];
  const [only = ''] = strategies;
  const strategy = strategies.length === 1 ? only : `dist.compose(${strategies.join(', ')})`;
  // Ranks of a pipeline compute parts of a pass, for which no budget can choose.
  const budget = layout.recompute === 'none' || pipelineParallel > 1 ? undefined : given;
  const hasPages =
    layout.offload !== 'nothing' ||
    offloadText(layout.recompute) !== 'none' ||
    (budget?.pageBytesPerSecond ?? null) !== null;
  const accumulated =
    pipelineParallel === 1 && microbatches > 1
      ? [
          `// Add up the gradients of ${microbatches} microbatches of ${layout.rows === 1 ? '1 row' : `${layout.rows} rows`} before each step().`,
        ]
      : [];
  return [
    `const context = await init({ mesh: [${meshText(layout)}] });`,
    ...(hasPages ? ['const pages = dist.hostPages();'] : []),
    `const parallel = await dist.parallelize(model, ${strategy});`,
    ...accumulated,
    ...remarks(layout, budget),
  ];
}

function meshText(layout: RunLayout): string {
  const { dataParallel, shardRanks, zero, pipelineParallel, expertParallel, tensorParallel } =
    layout;
  const isHybrid = zero === 3 && shardRanks < dataParallel;
  const axes: readonly (readonly [string, number])[] = [
    ['pp', pipelineParallel],
    ['replicas', isHybrid ? dataParallel / shardRanks : 1],
    ['dp', (isHybrid ? shardRanks : dataParallel) / expertParallel],
    ['ep', expertParallel],
    ['tp', tensorParallel],
  ];
  return axes
    .filter(([name, size]) => size > 1 || name === 'dp')
    .map(([name, size]) => `{ name: '${name}', size: ${size} }`)
    .join(', ');
}

function pipelineText(
  { schedule, stagesPerRank, pipelineParallel }: RunLayout,
  microbatches: number,
): string {
  const stages = stagesPerRank > 1 ? `, stages: ${stagesPerRank * pipelineParallel}` : '';
  return `dist.pipeline({ schedule: '${schedule}', microbatches: ${microbatches}${stages} })`;
}

function dataText({ zero, shardRanks, dataParallel, precision, offload }: RunLayout): string {
  const mixed =
    precision === 'f32' ? [] : ["mixedPrecision: { parameterDtype: 'bf16', computeDtype: 'bf16' }"];
  const pages = offload === 'optimizer and parameters' ? ['pages'] : [];
  const replicas = zero === 3 && shardRanks < dataParallel ? ["replicas: 'replicas'"] : [];
  const [name, stage] =
    zero === 0 ? ['ddp', []] : zero === 3 ? ['fsdp', []] : ['zero', [`stage: ${zero}`]];
  const options = [...stage, ...replicas, ...pages, ...mixed].join(', ');
  return `dist.${name}(${options === '' ? '' : `{ ${options} }`})`;
}

function remarks(
  { offload, recompute, contextParallel }: RunLayout,
  budget?: ScriptBudget,
): readonly string[] {
  const recomputed = recomputeText(recompute);
  const offloaded = offloadText(recompute);
  return [
    ...(offload === 'nothing'
      ? []
      : [
          'const adam = new optim.AdamW(model.parameters());',
          'const optimizer = new dist.OffloadedOptimizer(model, adam, { states: pages });',
        ]),
    ...(recomputed === 'none'
      ? []
      : [`// Compute layers again with nn.checkpoint: ${recomputed}.`]),
    ...(offloaded === 'none'
      ? []
      : [`// Offload the activations of ${offloaded} with nn.checkpoint and pages.`]),
    ...(budget === undefined ? [] : budgetLines(budget)),
    ...(contextParallel > 1
      ? [`// No strategy of this version divides sequences among ${contextParallel} ranks.`]
      : []),
  ];
}

function budgetLines({
  passBytes,
  flopsPerSecond,
  pageBytesPerSecond,
}: ScriptBudget): readonly string[] {
  const bytes = `bytes: ${Math.floor(passBytes)}`;
  if (pageBytesPerSecond === null) {
    return [
      '// With this policy, it chooses value by value:',
      `const policy = nn.activationMemoryBudget({ ${bytes} });`,
    ];
  }
  const speeds = `flopsPerSecond: ${flopsPerSecond.toPrecision(3)}, pageBytesPerSecond: ${pageBytesPerSecond.toPrecision(3)}`;
  return [
    '// With { policy, pages }, it chooses value by value what is kept, computed again, or offloaded:',
    `const policy = nn.activationMemoryBudget({ ${bytes}, ${speeds} });`,
  ];
}
