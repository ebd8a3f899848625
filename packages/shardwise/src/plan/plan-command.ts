import { writeFile } from 'node:fs/promises';
import { type Goal, planText, planTraining } from '@shardwise/planner';
import { openCluster, openModel } from '@shardwise/planner/node';
import { displayPath } from '../text/display-path.ts';
import { planPage } from './plan-page.ts';
import { planTrace } from './plan-trace.ts';

/** The options of `shardwise plan`. */
export interface PlanCommandOptions {
  /** A name such as gpt:175b, a folder with a config.json, or such a file. */
  readonly model: string;
  /** A name such as 128xh100, or a file. */
  readonly cluster: string;
  readonly batch: number;
  readonly sequence: number | undefined;
  /** Bytes for each rank. */
  readonly memory: number | undefined;
  readonly goal: Goal;
  readonly precision: 'mixed' | 'f32';
  readonly keep: number;
  readonly json: boolean;
  /** The file of the page. Undefined: there is none. */
  readonly page: string | undefined;
  /** The file for the timeline of the best layout, as the simulator plays it. Undefined: there is none. */
  readonly trace: string | undefined;
}

/** Runs `shardwise plan` and returns the exit code: 1 if nothing fits. Throws ConfigError. */
export async function planCommand(options: PlanCommandOptions): Promise<number> {
  const { sequence, memory, batch, goal, precision, keep } = options;
  const model = await openModel(options.model, sequence);
  const cluster = await openCluster(options.cluster);
  const plan = planTraining({
    model,
    cluster,
    batch,
    goal,
    precision,
    keep,
    ...(sequence === undefined ? {} : { sequence }),
    ...(memory === undefined ? {} : { memoryBytes: memory }),
  });
  if (options.page !== undefined) await writeFile(options.page, planPage(plan));
  if (options.trace !== undefined) await writeFile(options.trace, planTrace(plan));
  const lines = [
    planText(plan),
    ...(options.page === undefined ? [] : ['', `Page: ${displayPath(options.page)}`]),
    ...(options.trace === undefined ? [] : [`Timeline: ${displayPath(options.trace)}`]),
  ];
  process.stdout.write(`${options.json ? JSON.stringify(plan) : lines.join('\n')}\n`);
  return plan.ranked.length > 0 ? 0 : 1;
}
