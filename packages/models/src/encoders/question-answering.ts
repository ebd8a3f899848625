import { ConfigError, functional, type Linear, type Tensor } from '@shardwise/core/extend';
import { InitialValues } from '../layers/initial-values.ts';
import type { PretrainedOptions } from '../model/pretrained-model.ts';
import type { EncoderCall } from './encoder-call.ts';
import type { EncoderConfig } from './encoder-config.ts';

// Answers are stretches of a text (Rajpurkar et al. 2016): a model says of each token how likely it begins and ends one.

/** What a forward pass that marks answers may be given beside its tokens. */
export interface QuestionAnsweringCall extends Omit<EncoderCall, 'labels'> {
  /** The first token of each row's answer. With `endPositions`, the loss is returned. Shape: i32 [B]. */
  readonly startPositions?: Tensor;
  /** The last token of each row's answer. Shape: i32 [B]. */
  readonly endPositions?: Tensor;
}

/** Positions of answers. Shape: i32 [B] each. */
interface Positions {
  readonly start: Tensor;
  readonly end: Tensor;
}

/** The layer that makes two logits of each token. Shape: [B, T, C] -> [B, T, 2]. */
export function spanHead(
  { hiddenSize, initializerRange }: EncoderConfig,
  options: PretrainedOptions,
): Linear {
  return new InitialValues(options, initializerRange).linear(hiddenSize, 2);
}

/** Divides a call. Positions are null if there are none. Throws ConfigError for one of the two without the other. */
export function spanCall({ startPositions, endPositions, ...encoderCall }: QuestionAnsweringCall): {
  readonly encoderCall: EncoderCall;
  readonly positions: Positions | null;
} {
  if (startPositions !== undefined && endPositions !== undefined) {
    return { encoderCall, positions: { start: startPositions, end: endPositions } };
  }
  if (startPositions === undefined && endPositions === undefined) {
    return { encoderCall, positions: null };
  }
  throw new ConfigError({
    asked: 'the loss of answers',
    found: `${startPositions === undefined ? 'endPositions' : 'startPositions'} alone`,
    todo: 'Give both startPositions and endPositions, or neither for logits',
  });
}

/**
 * The mean of the cross-entropies of the first and of the last token. A position that the row does not have does not
 * count. Shape: logits [B, T, 2], positions i32 [B] -> [].
 */
export function spanLoss(logits: Tensor, { start, end }: Positions): Tensor {
  const [, length = 0] = logits.shape;
  const lossOf = (which: number, positions: Tensor): Tensor =>
    functional.crossEntropy(
      logits.select(2, which),
      positions.maskedFill(positions.ge(length), -100),
    );
  return lossOf(0, start).add(lossOf(1, end)).mul(0.5);
}
