import { noGrad } from '../graph/create-node.ts';
import { BatchNorm } from '../nn/norm/batch-norm.ts';
import type { Module } from '../nn/module/module.ts';
import { requireModule } from '../nn/module/require-module.ts';
import { currentSession } from '../rank.ts';
import { checkOptions } from '../base/check-options.ts';
import { DataError } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import { ones, zeros } from '../tensor/create.ts';

type Forward = (batch: never) => unknown;

const rules = {
  batches: option.required<object>({
    fits: (value): value is object =>
      option.object().fits(value) && (Symbol.iterator in value || Symbol.asyncIterator in value),
    expected: 'a loader or a list of batches',
  }),
  forward: option.required(option.callback<Forward>()),
};

/**
 * Computes the running statistics of batch norms from all batches together (torch.optim.swa_utils.update_bn).
 * Averaged weights need it, because no batch has passed through them: call it inside `averaged.use`. `forward`
 * runs the model on a batch. Throws DataError if there are no batches, and ConfigError for a `forward` that
 * returns a promise.
 */
export async function updateBatchNorm<Batch>(
  model: Module,
  batches: Iterable<Batch> | AsyncIterable<Batch>,
  forward: (batch: Batch) => unknown,
): Promise<void> {
  requireModule('updateBatchNorm', model);
  checkOptions<{ batches: object; forward: Forward }>(
    'updateBatchNorm',
    { batches, forward },
    rules,
  );
  const modules = model.namedModules().map(([, module]) => module);
  const norms = modules.filter((module) => module instanceof BatchNorm);
  const modes = modules.map(({ training }) => training);
  const momenta = norms.map(({ momentum }) => momentum);
  for (const norm of norms) norm.momentum = null;
  model.train();
  let count = 0;
  try {
    for await (const batch of batches) {
      if (count === 0) for (const norm of norms) reset(norm);
      noGrad(() => forward(batch));
      await currentSession().realize([]);
      count++;
    }
  } finally {
    norms.forEach((norm, index) => (norm.momentum = momenta[index] ?? null));
    // train() of a parent also sets the modes of its children. Parents come first here, so the children get their own
    // modes last.
    modules.forEach((module, index) => module.train(modes[index]));
  }
  if (count === 0) throw noBatches();
}

function reset({ runningMean, runningVar, numBatchesTracked }: BatchNorm): void {
  runningMean.assign(zeros(runningMean.shape, runningMean.dtype));
  runningVar.assign(ones(runningVar.shape, runningVar.dtype));
  numBatchesTracked.assign(zeros([], numBatchesTracked.dtype));
}

function noBatches(): DataError {
  return new DataError({
    asked: 'updateBatchNorm',
    found: 'no batches',
    todo: 'Give it a data loader, or a list of batches',
  });
}
