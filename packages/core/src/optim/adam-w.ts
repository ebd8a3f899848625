import { adamRule, adamStates, checkAdamSettings, type AdamSettings } from './adam-rule.ts';
import { Optimizer, type UpdateRule } from './optimizer.ts';
import type { OptimizerInput } from './param-group.ts';

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
