// Fits constants of devices and links to measured runs, and prints the error of each table on rows that were not fitted.
//
//     node --conditions=@shardwise/source tools/fit-planner.ts

import {
  errorsOf,
  fitConstants,
  foldErrors,
  memoryQuantities,
  memoryQuantitiesOf,
  quantitiesOf,
  stepQuantities,
  stepSums,
} from '@shardwise/planner';
import { playbookCells } from '../test/measured/cells.ts';
import { spearman, summarize } from '../test/measured/errors.ts';
import { playbookRuns, vtrainRuns } from '../test/measured/measured-runs.ts';
import { ownLineErrors } from '../test/measured/own-lines.ts';

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

function report(
  table: string,
  names: readonly string[],
  quantities: readonly (readonly number[])[],
  measured: readonly number[],
  others = quantities,
): void {
  const errors = foldErrors(quantities, measured, others);
  const { mean, median, trimmedMean, largest } = summarize(errors);
  const predicted = errors.map((error, index) => (1 + error) * (measured[index] ?? 0));
  console.log(
    `${table}: ${measured.length} rows, mean error ${percent(mean)}, median ${percent(median)}, without the worst tenth ${percent(trimmedMean)}, largest ${percent(largest)}, Spearman ${spearman(predicted, measured).toFixed(3)}`,
  );
  const constants = fitConstants(quantities, measured, others);
  const fitted = summarize(errorsOf(quantities, measured, constants, others)).mean;
  console.log(`  on the rows to which constants are fitted: ${percent(fitted)}`);
  for (const [index, name] of names.entries()) {
    console.log(`  ${name}: ${(constants[index] ?? 0).toExponential(3)}`);
  }
}

for (const name of ['many-nodes', 'one-node'] as const) {
  const runs = vtrainRuns(name);
  const sums = runs.map(({ model, layout, workload, cluster }) =>
    stepSums(quantitiesOf(model, layout, workload, cluster)),
  );
  const seconds = runs.map(({ row }) => Number(row.stepMs) / 1000);
  const [device, host] = [sums.map((each) => each.device), sums.map((each) => each.host)];
  report(`vTrain, ${name} (seconds)`, stepQuantities, device, seconds, host);
  const own = ownLineErrors(runs);
  if (own.length > 0) {
    console.log(
      `  limit: three constants for each layout, fitted to its own rows: ${own.length} rows, mean error ${percent(summarize(own).mean)}`,
    );
  }
}

const runs = playbookRuns('playbook');
const memory = runs.map(({ model, layout, workload }) => {
  if (model.kind !== 'transformer') throw new RangeError('the playbook has transformers');
  const counted = memoryQuantitiesOf(model, layout, workload);
  return memoryQuantities.map((quantity) => counted[quantity]);
});
const bytes = runs.map(({ row }) => Number(row.memoryGiB) * 2 ** 30);
report('playbook (bytes of a rank)', memoryQuantities, memory, bytes);

const cells = playbookCells();
const far = cells.filter(({ reached }) => reached < 0.9);
const messages = cells.map(({ messageSeconds }) => messageSeconds);
console.log(
  `playbook (choice): in ${cells.length - far.length} of ${cells.length} cells, the layout that is predicted best reaches 90 % of the best tokens per second`,
);
console.log(
  `  messageSeconds of other cells: ${Math.min(...messages).toFixed(3)} to ${Math.max(...messages).toFixed(3)}`,
);
for (const { name, reached } of far) console.log(`  ${name}: ${percent(reached)}`);
