import { optim } from '@shardwise/core';
import type { OptimizerInput, OptimizerSettings } from '@shardwise/core/extend';
import type { OptimizerTable } from '@shardwise/strategies';

type Groups = OptimizerInput<OptimizerSettings>;

/**
 * The optimizers of a parameter server. Those are missing that talk with other ranks, or that are made with more than
 * settings, which requests do not carry.
 */
export const servedOptimizers: OptimizerTable = {
  Adafactor: make(optim.Adafactor),
  Adagrad: make(optim.Adagrad),
  Adam: make(optim.Adam),
  AdamW: make(optim.AdamW),
  Lamb: make(optim.Lamb),
  Lion: make(optim.Lion),
  Muon: make(optim.Muon),
  RMSprop: make(optim.RMSprop),
  SGD: make(optim.SGD),
};

/** An optimizer checks itself what its groups have. */
function make<Settings extends OptimizerSettings>(
  optimizer: new (groups: Groups) => optim.Optimizer<Settings>,
): (groups: Groups) => optim.Optimizer {
  return (groups) => new optimizer(groups);
}
