import { manualSeed, nn, optim } from '@shardwise/core';
import { diloco, parallelize } from '@shardwise/strategies';
import { join } from 'shardwise/together';
import { Classifier, rowsOf } from '../page/classifier.ts';

/** How a member finds the others. */
export interface MemberTask {
  readonly url: string;
  readonly token: string;
  readonly name: string;
  /** The number of members. */
  readonly members: number;
}

/** What a member has seen when all were there. */
export interface MemberResult {
  readonly rounds: number;
  /** The parameters after this round. */
  readonly values: readonly number[];
}

/** The number of rounds that all members take part in before one compares. */
const COMMON_ROUNDS = 3;
/** Members stop after a round whose number is a multiple of it, so that all compare the same one. */
const STOPS = 10;

/** Trains on the rank that is set until all members have trained together for some rounds. */
export async function trainMember(task: MemberTask): Promise<MemberResult> {
  const { url, token, name, members } = task;
  const member = await join({ url, token, name, onNotice: () => undefined });
  manualSeed(member.number);
  const model = new Classifier();
  const strategy = diloco({ every: 2, bits: 8, members: member });
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-2 });
  let common = 0;
  let before = 0;
  for (let step = 1; common < COMMON_ROUNDS || before % STOPS !== 0; step++) {
    optimizer.zeroGrad();
    const { x, labels } = rowsOf(step + 1000 * member.number, 0, 8);
    nn.functional.crossEntropy(parallel.forward(x), labels).backward();
    const { groupSize } = member;
    await optimizer.step();
    const { outerSteps } = strategy.outer;
    if (outerSteps !== before && groupSize === members) common++;
    before = outerSteps;
  }
  const values: number[] = [];
  for (const parameter of model.parameters())
    values.push(...Array.from(await parameter.data(), Number));
  member.close();
  return { rounds: before, values };
}
