import { optim } from '@shardwise/core';
import type { OptimizerInput, OptimizerSettings } from '@shardwise/core/extend';
import type { OptimizerTable } from '@shardwise/parameter-server';

type Groups = OptimizerInput<OptimizerSettings>;

/**
 * The optimizers of a parameter server. It lacks those that talk with other ranks, and those that need more than
 * settings, which are all that a request carries.
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

/** Returns a function that makes an optimizer. The optimizer itself checks the settings of its groups. */
function make<Settings extends OptimizerSettings>(
  optimizer: new (groups: Groups) => optim.Optimizer<Settings>,
): (groups: Groups) => optim.Optimizer {
  return (groups) => new optimizer(groups);
}
