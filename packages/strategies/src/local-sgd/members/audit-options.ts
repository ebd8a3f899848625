import { checkOptions, type Optimizer, option, type OptionRules } from '@shardwise/core/extend';

/** What an update of a member is made of. */
export interface AuditedBatch {
  /** The numbers of the samples, from 0 below `samples`. They are drawn for this update. */
  readonly indices: readonly number[];
  /** The inner optimizer of the present round. */
  readonly optimizer: Optimizer;
  /** The number of the update in the run, from 0. Schedules of the learning rate follow it. */
  readonly update: number;
}

/**
 * How a member makes its updates, so that others can make them again. What a member has learned in a round then follows
 * from the state of the run and from the samples that are drawn, and from nothing else.
 */
export interface AuditOptions {
  /** The number of samples. All members have the same ones, under the same numbers. */
  readonly samples: number;
  /** The number of samples of an update. */
  readonly batchSize: number;
  /** Makes the inner optimizer. Each round begins with a new one. */
  readonly optimizer: () => Optimizer;
  /**
   * Makes one update: computes the gradients of the samples, and calls `optimizer.step()` once. It returns the loss. It
   * must give the same bits whenever it is called with the same parameters and samples. Dropout may be used, because its
   * random numbers are drawn for the update, too.
   */
  readonly step: (batch: AuditedBatch) => Promise<number>;
}

const auditRules: OptionRules<AuditOptions> = {
  samples: option.required(option.integer(1, 2 ** 31 - 1)),
  batchSize: option.required(option.integer(1)),
  optimizer: option.required(option.callback()),
  step: option.required(option.callback()),
};

/** Throws ConfigError for options out of range. */
export function checkAudit(options: AuditOptions | undefined): AuditOptions | null {
  if (options === undefined) return null;
  checkOptions('audit of diloco', options, auditRules);
  return options;
}
