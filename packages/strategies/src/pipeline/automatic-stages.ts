import { ConfigError } from '@shardwise/core/extend';
import type { Schedule } from '../pipeline-schedule/actions/schedule.ts';
import { automaticSchedule } from '../pipeline-schedule/automatic/automatic-schedule.ts';
import type { LinkCosts } from '../pipeline-schedule/simulation/schedule-costs.ts';
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
  /** The value that the caller passed as the option `cut`. */
  readonly cut: readonly string[] | string | undefined;
}

/**
 * Returns the schedule, cut and number of microbatches with the shortest predicted step, given the costs of the
 * modules. Only combinations that fit into the memory of each rank are considered. Throws ConfigError if costs are not
 * known, and if no combination fits.
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
