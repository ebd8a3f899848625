import type { Schedule } from '../actions/schedule.ts';
import { RankProgram, repeat } from './rank-program.ts';
import { type FullShape, loopPlacement, refusal, scheduleOf } from './schedule-shape.ts';

/**
 * A rank begins backwards as soon as the first gradient arrives, and then alternates one forward and one backward
 * (Narayanan et al. 2019, PipeDream). The number of live microbatches is at most the number of ranks from this one on.
 */
export function oneForwardOneBackward(shape: FullShape): Schedule {
  const { ranks, stagesPerRank, microbatches } = shape;
  if (stagesPerRank !== 1) {
    const found = `${stagesPerRank} stages of one rank`;
    throw refusal('1f1b', shape, found, 'Take interleaved1f1b, which is 1F1B with more stages');
  }
  return scheduleOf('1f1b', shape, loopPlacement(shape), (rank) => {
    const program = new RankProgram();
    const warmUp = Math.min(ranks - 1 - rank, microbatches);
    repeat(warmUp, () => program.forward(rank));
    repeat(microbatches - warmUp, () => {
      program.forward(rank);
      program.backward(rank);
    });
    repeat(warmUp, () => program.backward(rank));
    return program.actions;
  });
}

/** How a schedule goes through the stages of a rank. */
interface Interleaving {
  /** The number of additional forwards that a rank does before its first backward, for each rank after it. */
  readonly warmUpPerRank: 1 | 2;
  /**
   * The number of weight gradients that a rank holds back, for each rank before it. Undefined: backwards are not split.
   */
  readonly heldPerRank?: 1 | 2;
}

/**
 * 1F1B on ranks with several stages. The bubble shrinks with their number (Narayanan et al. 2021, arXiv 2104.04473).
 * Microbatches go through a rank's stages in rounds of about as many as there are ranks.
 */
export function interleaved1f1b(shape: FullShape): Schedule {
  return interleaved('interleaved1f1b', shape, { warmUpPerRank: 2 });
}

/** Weight gradients fill a part of the bubble, with the memory of 1F1B's first rank (Qi et al. 2023, ZB-H1). */
export function zb1p(shape: FullShape): Schedule {
  return interleaved('zb1p', shape, { warmUpPerRank: 1, heldPerRank: 1 });
}

/** With twice the memory, weight gradients fill the whole bubble if F, I and W take equally long (ZB-H2). */
export function zb2p(shape: FullShape): Schedule {
  return interleaved('zb2p', shape, { warmUpPerRank: 2, heldPerRank: 2 });
}

function interleaved(name: string, shape: FullShape, how: Interleaving): Schedule {
  const { ranks, stagesPerRank, microbatches } = shape;
  const rounds = Math.max(1, Math.floor(microbatches / ranks));
  if (microbatches % rounds !== 0) {
    throw refusal(
      name,
      shape,
      `${rounds} rounds, into which ${microbatches} microbatches cannot be divided equally`,
      `Take ${rounds * ranks} or ${(rounds + 1) * ranks} microbatches`,
    );
  }
  const perRound = microbatches / rounds;
  const perRank = stagesPerRank * microbatches;
  return scheduleOf(name, shape, loopPlacement(shape), (rank) => {
    const program = new RankProgram();
    const warmUp = Math.min(
      (stagesPerRank - 1) * perRound + how.warmUpPerRank * (ranks - 1 - rank),
      perRank,
    );
    const localStage = (turn: number): number => Math.floor(turn / perRound) % stagesPerRank;
    const forward = (turn: number): void => program.forward(localStage(turn) * ranks + rank);
    const backward = (turn: number): void => {
      const stage = (stagesPerRank - 1 - localStage(turn)) * ranks + rank;
      if (how.heldPerRank === undefined) return program.backward(stage);
      program.inputGradient(stage);
      if (turn >= how.heldPerRank * rank) program.weightGradient();
    };
    repeat(warmUp, forward);
    repeat(perRank - warmUp, (turn) => {
      forward(warmUp + turn);
      backward(turn);
    });
    repeat(warmUp, (turn) => backward(perRank - warmUp + turn));
    while (program.hasPendingWeights) program.weightGradient();
    return program.actions;
  });
}
