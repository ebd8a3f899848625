import type { RunLayout, Workload } from '../cost/run-layout.ts';
import { microbatchesOf, recomputeText } from '../cost/run-layout.ts';

/**
 * Writes the lines of a training script that realise a layout. `passBytes` are those that a pass may take on a rank, besides
 * states: with them, a budget chooses what is recomputed.
 */
export function scriptLines(
  layout: RunLayout,
  workload: Workload,
  passBytes?: number,
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
  const accumulated =
    pipelineParallel === 1 && microbatches > 1
      ? [
          `// Add up the gradients of ${microbatches} microbatches of ${layout.rows} rows before each step().`,
        ]
      : [];
  return [
    `const context = await init({ mesh: [${meshText(layout)}] });`,
    ...(layout.offload === 'nothing' ? [] : ['const pages = dist.hostPages();']),
    `const parallel = await dist.parallelize(model, ${strategy});`,
    ...accumulated,
    ...remarks(layout, passBytes),
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
  passBytes?: number,
): readonly string[] {
  const recomputed = recomputeText(recompute);
  return [
    ...(offload === 'nothing'
      ? []
      : [
          'const adam = new optim.AdamW(model.parameters());',
          'const optimizer = new dist.OffloadedOptimizer(model, adam, { states: pages });',
        ]),
    ...(recomputed === 'none'
      ? []
      : [
          `// Compute layers again with nn.checkpoint: ${recomputed}.`,
          ...(passBytes === undefined
            ? []
            : [
                '// With this policy, it chooses value by value:',
                `const policy = nn.activationMemoryBudget({ bytes: ${Math.floor(passBytes)} });`,
              ]),
        ]),
    ...(contextParallel > 1
      ? [`// No strategy of this version divides sequences among ${contextParallel} ranks.`]
      : []),
  ];
}
