import { layoutText, namedCluster, planTraining, type TrainingPlan } from '@shardwise/planner';

/** What a reader chooses. */
export interface PlanChoices {
  readonly model: string;
  readonly device: string;
  readonly devices: number;
  readonly batch: number;
  /** The share of the memory of a device that a rank may use. */
  readonly percent: number;
}

/** How many layouts are shown. */
export const KEPT = 5;

/** Searches as the command does. */
export function planInPage({ model, device, devices, batch, percent }: PlanChoices): TrainingPlan {
  const cluster = namedCluster(`${devices}x${device}`);
  const memoryBytes = (cluster.device.memoryBytes * percent) / 100;
  return planTraining({ model, cluster, batch, keep: KEPT, memoryBytes });
}

/** Says which layout is best, or what to change if nothing fits. */
export function summaryOf({ ranked: [best], smallest, changes }: TrainingPlan): string {
  if (best !== undefined) {
    return `The best layout is ${layoutText(best.layout)}: ${secondsText(best.stepSeconds)} a step.`;
  }
  const least =
    smallest === null ? '' : ` The least is ${gigabytesText(smallest.memory.totalBytes)}.`;
  return `Nothing fits.${least} ${changes.map(({ change }) => `${change}.`).join(' ')}`;
}

export function secondsText(seconds: number): string {
  return seconds >= 1 ? `${seconds.toPrecision(3)} s` : `${(1000 * seconds).toPrecision(3)} ms`;
}

/** Writes bytes in the unit in which devices are sold, which is that of the changes of a plan. */
export function gigabytesText(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
