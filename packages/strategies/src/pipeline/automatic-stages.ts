import { ConfigError } from '@shardwise/core/extend';
import { automaticSchedule } from '../pipeline-schedule/automatic-schedule.ts';
import type { LinkCosts } from '../pipeline-schedule/schedule-costs.ts';
import type { Schedule } from '../pipeline-schedule/schedule.ts';
import type { ModelCosts } from './costs/model-costs.ts';
import { layerCosts } from './costs/stage-costs.ts';

export interface AutomaticStagesOptions {
  readonly ranks: number;
  readonly costs: ModelCosts | undefined;
  readonly rows: number | undefined;
  readonly link: LinkCosts | undefined;
  readonly memoryBytes: number | undefined;
  readonly microbatches: number | undefined;
  readonly stages: number | undefined;
  /** What the caller gave as `cut`. */
  readonly cut: readonly string[] | string | undefined;
}

/**
 * The fastest schedule, cut and number of microbatches for what modules cost, of those for which each rank has room.
 * Throws ConfigError where it is not known what they cost, and where there is no room.
 */
export function automaticStages({
  ranks,
  costs,
  rows,
  link,
  memoryBytes,
  microbatches,
  stages,
  cut,
}: AutomaticStagesOptions): { readonly schedule: Schedule; readonly cut: readonly string[] } {
  if (cut !== undefined) {
    throw automaticError(
      'a cut beside it',
      "Leave cut out: it is chosen with the schedule. Or name a schedule, as '1f1b'",
    );
  }
  const layers = costs === undefined || rows === undefined ? null : layerCosts(costs, rows);
  if (costs === undefined || rows === undefined || layers === null) {
    const isCounted = costs !== undefined && rows !== undefined;
    throw automaticError(
      isCounted
        ? 'costs that were counted, without times'
        : `no ${costs === undefined ? 'costs' : 'rows'}`,
      'Give costs: await measureModelCosts(model, inputs, { loss }), and rows: those of a batch',
    );
  }
  if (stages !== undefined && stages % ranks !== 0) {
    throw automaticError(
      `${stages} stages on ${ranks} ranks`,
      `Give a multiple of ${ranks} stages`,
    );
  }
  const chosen = automaticSchedule({
    layers,
    ranks,
    rows,
    ...(link === undefined ? {} : { link }),
    ...(memoryBytes === undefined ? {} : { memoryBytes }),
    ...(microbatches === undefined ? {} : { microbatches: [microbatches] }),
    ...(stages === undefined ? {} : { stagesPerRank: [stages / ranks] }),
  });
  return {
    schedule: chosen.schedule,
    cut: chosen.boundaries.slice(1, -1).map((place) => costs.modules[place]?.path ?? ''),
  };
}

function automaticError(found: string, todo: string): ConfigError {
  return new ConfigError(
    { asked: 'a pipeline whose schedule is chosen automatically', found, todo },
    { schedule: 'automatic' },
  );
}
