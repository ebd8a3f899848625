import type { Tensor } from 'shardwise';

/** Of a batch of completions. Letters: B completions, T tokens of each. */
export interface GrpoBatch {
  /** Log-probabilities of the tokens by the model. Shape: [B, T]. */
  readonly logProbabilities: Tensor;
  /** Those by the model that made the completions. Shape: [B, T]. */
  readonly oldLogProbabilities: Tensor;
  /** Those by the reference, from which the model is not to go far. Shape: [B, T]. */
  readonly refLogProbabilities?: Tensor;
  /** Shape: [B]. */
  readonly advantages: Tensor;
  /** 1 for tokens that count, and 0 for padding. Shape: [B, T]. */
  readonly mask: Tensor;
  /** How many tokens count on a rank, in the mean over ranks. Shape: []. */
  readonly meanTokens: Tensor;
}

/** What the losses of tokens are divided by when they are added up. */
export const lossTypes = ['grpo', 'bnpo', 'dr_grpo', 'dapo'] as const;
export type LossType = (typeof lossTypes)[number];

/** The names are those of TRL. */
export interface GrpoOptions {
  readonly lossType: LossType;
  /** Ratios count up to this far from 1. */
  readonly epsilon: number;
  /** The weight of the divergence from the reference. 0: it does not count. */
  readonly beta: number;
}

export interface GrpoLoss {
  /** Shape: []. */
  readonly loss: Tensor;
  /** How many times as probable tokens are as when they were generated. 1 for padding. Shape: [B, T]. */
  readonly ratio: Tensor;
}

/**
 * The loss of group relative policy optimization (Shao et al. 2024), with TRL's ways to add up the losses of tokens. A token
 * that became more probable than 1 + epsilon times has no gradient, if its advantage asks for more.
 */
export function grpoLoss(batch: GrpoBatch, { lossType, epsilon, beta }: GrpoOptions): GrpoLoss {
  const { logProbabilities, oldLogProbabilities, refLogProbabilities, mask } = batch;
  const ratio = logProbabilities.sub(oldLogProbabilities).mul(mask).exp();
  const advantages = batch.advantages.unsqueeze(1);
  const clipped = ratio.clamp(1 - epsilon, 1 + epsilon);
  let each = ratio.mul(advantages).minimum(clipped.mul(advantages)).neg();
  if (beta > 0 && refLogProbabilities !== undefined) {
    each = each.add(divergence(logProbabilities, refLogProbabilities).mul(beta));
  }
  return { loss: reduced(each.mul(mask), lossType, batch), ratio };
}

/** Adds the losses of tokens up, where 0 stands for padding. Shape: [B, T] -> []. */
function reduced(losses: Tensor, lossType: LossType, { mask, meanTokens }: GrpoBatch): Tensor {
  const [rows = 0, tokens = 0] = losses.shape;
  switch (lossType) {
    // The mean over completions of the mean over their tokens.
    case 'grpo':
      return losses.sum(1).div(mask.sum(1)).mean();
    // The mean over the tokens of this rank.
    case 'bnpo':
      return losses.sum().div(mask.sum());
    // By a constant, so that a long completion counts more than a short one (Liu et al. 2025).
    case 'dr_grpo':
      return losses.sum().div(rows * tokens);
    // The mean over the tokens of all ranks, of whose gradients DDP takes the mean (Yu et al. 2025).
    case 'dapo':
      return losses.sum().div(meanTokens);
    default:
      return lossType satisfies never;
  }
}

/** An estimate of the divergence from the reference that is never negative (Schulman 2020). Shape: [B, T] -> [B, T]. */
function divergence(logProbabilities: Tensor, refLogProbabilities: Tensor): Tensor {
  const difference = refLogProbabilities.sub(logProbabilities);
  return difference.exp().sub(difference).sub(1);
}

/** The log-probabilities of the tokens that came. Shape: logits [B, T, V], tokens i32 [B, T] -> [B, T]. */
export function selectiveLogSoftmax(logits: Tensor, tokens: Tensor): Tensor {
  return logits.logSoftmax().gather(2, tokens.unsqueeze(2)).squeeze(2);
}

/**
 * How much better each completion is than its group: its reward less their mean, over their standard deviation. The
 * completions of a group follow each other. A group whose rewards are equal teaches nothing.
 */
export function groupAdvantages(rewards: readonly number[], numGenerations: number): number[] {
  const advantages: number[] = [];
  for (let first = 0; first < rewards.length; first += numGenerations) {
    const group = rewards.slice(first, first + numGenerations);
    const mean = group.reduce((sum, each) => sum + each, 0) / group.length;
    const squares = group.reduce((sum, each) => sum + (each - mean) ** 2, 0);
    const deviation = Math.sqrt(squares / Math.max(1, group.length - 1));
    advantages.push(...group.map((each) => (each - mean) / (deviation + 1e-4)));
  }
  return advantages;
}
