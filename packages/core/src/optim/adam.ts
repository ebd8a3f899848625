import { adamRule, type AdamSettings, adamStates, checkAdamSettings } from './adam-rule.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import type { OptimizerInput } from './param-group.ts';

/** torch.optim.Adam: weight decay is added to the gradient. */
export class Adam extends Optimizer<AdamSettings> {
  static readonly typeName: string = 'Adam';

  /** Defaults: lr 1e-3, betas [0.9, 0.999], eps 1e-8, weightDecay 0, amsgrad and maximize off. Throws ConfigError. */
  constructor(
    params: OptimizerInput<AdamSettings>,
    settings: Partial<AdamSettings> = {},
    ...more: readonly never[]
  ) {
    super(
      params,
      settings,
      { lr: 1e-3, betas: [0.9, 0.999], eps: 1e-8, weightDecay: 0, amsgrad: false, maximize: false },
      more,
    );
  }

  protected override rule(settings: AdamSettings, steps: number): UpdateRule {
    return adamRule(settings, steps, false);
  }

  protected override get savedNames(): readonly string[] {
    return adamStates;
  }

  protected override checkSettings(settings: AdamSettings): void {
    checkAdamSettings(settings);
  }
}

/** torch.optim.AdamW: weight decay shrinks the parameters directly. */
export class AdamW extends Optimizer<AdamSettings> {
  static readonly typeName: string = 'AdamW';

  /** Defaults: lr 1e-3, betas [0.9, 0.999], eps 1e-8, weightDecay 1e-2, amsgrad and maximize off. Throws ConfigError. */
  constructor(
    params: OptimizerInput<AdamSettings>,
    settings: Partial<AdamSettings> = {},
    ...more: readonly never[]
  ) {
    super(
      params,
      settings,
      {
        lr: 1e-3,
        betas: [0.9, 0.999],
        eps: 1e-8,
        weightDecay: 1e-2,
        amsgrad: false,
        maximize: false,
      },
      more,
    );
  }

  protected override rule(settings: AdamSettings, steps: number): UpdateRule {
    return adamRule(settings, steps, true);
  }

  protected override get savedNames(): readonly string[] {
    return adamStates;
  }

  protected override checkSettings(settings: AdamSettings): void {
    checkAdamSettings(settings);
  }
}
