import type { RunMessage, StepReport } from './run-message.ts';

/** What a rank needs for one step. Later steps weigh more. Amounts that the rank does not report are undefined. */
interface StepAverages {
  readonly stepMs: number;
  readonly computeMs: number;
  readonly communicationMs: number;
  readonly dataMs: number;
  readonly graphMs: number;
  readonly tokens: number | undefined;
  readonly samples: number | undefined;
  readonly sentBytes: number | undefined;
  readonly receivedBytes: number | undefined;
}

/** What is known of one rank of the present generation. */
export interface RankFigures {
  /** The number of its reports. */
  readonly reports: number;
  readonly last: StepReport | undefined;
  readonly recent: StepAverages | undefined;
  /** Undefined while the rank runs. */
  readonly exitCode: number | undefined;
}

/** The weight of a new step in the averages. */
const SMOOTHING = 0.1;

export function initialRanks(worldSize: number): readonly RankFigures[] {
  const none = { reports: 0, last: undefined, recent: undefined, exitCode: undefined };
  return Array.from({ length: worldSize }, () => none);
}

/** Returns what is known of the ranks after a message. */
export function reduceRanks(
  ranks: readonly RankFigures[],
  message: RunMessage,
): readonly RankFigures[] {
  if (message.kind === 'generation' || message.kind === 'membership')
    return initialRanks(message.worldSize);
  if (message.kind !== 'step' && message.kind !== 'exit') return ranks;
  const before = ranks[message.rank];
  if (before === undefined) return ranks;
  if (message.kind === 'exit')
    return ranks.with(message.rank, { ...before, exitCode: message.code });
  const reports = before.reports + 1;
  const recent = averagesAfter(before, message);
  return ranks.with(message.rank, { ...before, reports, last: message, recent });
}

/** The first step compiles and allocates, so it says nothing about the following steps. */
function averagesAfter({ reports, recent }: RankFigures, report: StepReport): StepAverages {
  const average = (before: number | undefined, value: number): number =>
    before === undefined || reports < 2 ? value : before + SMOOTHING * (value - before);
  const known = (before: number | undefined, value: number | undefined): number | undefined =>
    value === undefined ? before : average(before, value);
  return {
    stepMs: average(recent?.stepMs, report.stepMs),
    computeMs: average(recent?.computeMs, report.computeMs),
    communicationMs: average(recent?.communicationMs, report.communicationMs),
    dataMs: average(recent?.dataMs, report.dataMs),
    graphMs: average(recent?.graphMs, report.graphMs),
    tokens: known(recent?.tokens, report.tokens),
    samples: known(recent?.samples, report.samples),
    sentBytes: known(recent?.sentBytes, report.sentBytes),
    receivedBytes: known(recent?.receivedBytes, report.receivedBytes),
  };
}
