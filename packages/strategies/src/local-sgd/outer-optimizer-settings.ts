import { checkOptions, checkSetting, option, type OptionRules } from '@shardwise/core/extend';

/** Settings of the outer optimizer of `diloco`: SGD with momentum, as torch.optim.SGD computes it. */
export interface OuterOptions {
  /** The learning rate of the outer step. Default: 0.7. */
  readonly lr?: number;
  /** The momentum of the outer step, from 0 below 1. Default: 0.9. */
  readonly momentum?: number;
  /** Whether the momentum is Nesterov's. Without momentum it makes no difference. Default: true. */
  readonly nesterov?: boolean;
}

/** The settings with all defaults filled in. The defaults are those of the paper. */
export type OuterSettings = Required<OuterOptions>;

const outerRules: OptionRules<OuterOptions> = {
  lr: option.number,
  momentum: option.number,
  nesterov: option.flag,
};

/** Throws ConfigError for settings out of range. */
export function outerSettings(options: OuterOptions): OuterSettings {
  checkOptions('the outer optimizer of diloco', options, outerRules);
  const { lr = 0.7, momentum = 0.9, nesterov = true } = options;
  checkSetting('lr', lr, 0);
  checkSetting('momentum', momentum, 0, 1);
  return { lr, momentum, nesterov };
}
