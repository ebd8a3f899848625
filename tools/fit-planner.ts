// Fits constants of devices and links to measured runs, and prints the error of each table on rows that were not fitted.
//
//     node --conditions=@shardwise/source tools/fit-planner.ts

import {
  fitConstants,
  foldErrors,
  memoryQuantities,
  memoryQuantitiesOf,
  quantitiesOf,
  stepQuantities,
} from '@shardwise/planner';
import { summarize } from '../test/measured/errors.ts';
import { playbookRuns, vtrainRuns } from '../test/measured/measured-runs.ts';

function report(
  table: string,
  names: readonly string[],
  quantities: readonly (readonly number[])[],
  measured: readonly number[],
): void {
  const { mean, median, trimmedMean, largest } = summarize(foldErrors(quantities, measured));
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  console.log(
    `${table}: ${measured.length} rows, mean error ${percent(mean)}, median ${percent(median)}, without the worst tenth ${percent(trimmedMean)}, largest ${percent(largest)}`,
  );
  const constants = fitConstants(quantities, measured);
  for (const [index, name] of names.entries()) {
    console.log(`  ${name}: ${(constants[index] ?? 0).toExponential(3)}`);
  }
}

for (const name of ['many-nodes', 'one-node'] as const) {
  const runs = vtrainRuns(name);
  const quantities = runs.map(({ model, layout, workload, cluster }) => {
    const counted = quantitiesOf(model, layout, workload, cluster);
    return stepQuantities.map((quantity) => counted[quantity]);
  });
  const seconds = runs.map(({ row }) => Number(row.stepMs) / 1000);
  report(`vTrain, ${name} (seconds)`, stepQuantities, quantities, seconds);
}

const runs = playbookRuns('playbook');
const memory = runs.map(({ model, layout, workload }) => {
  if (model.kind !== 'transformer') throw new RangeError('the playbook has transformers');
  const counted = memoryQuantitiesOf(model, layout, workload);
  return memoryQuantities.map((quantity) => counted[quantity]);
});
const bytes = runs.map(({ row }) => Number(row.memoryGiB) * 2 ** 30);
report('playbook (bytes of a rank)', memoryQuantities, memory, bytes);
