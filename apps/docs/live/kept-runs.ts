import { ref, shallowRef, watch, type ShallowRef, type VNode } from 'vue';
import { axisEnd } from '../explorers/axis.ts';
import { choice, table } from '../explorers/controls.ts';
import { bytesText } from '../explorers/quantities.ts';
import { lineChart, type LineChart, type Line } from './line-chart.ts';
import { deviceTitle, type LiveState, type Report } from './live-run.ts';

/** What is kept of a run when another one begins. */
interface KeptRun {
  readonly name: string;
  readonly losses: readonly number[];
  /** The time from the beginning to the end of each step, in seconds. */
  readonly seconds: readonly number[];
  /**
   * The bytes of the rank that keeps the most, as measured. `plannedBytes` is what its plan says. Undefined before the
   * rank has reported them.
   */
  readonly keptBytes: number | undefined;
  readonly plannedBytes: number | undefined;
}

const MOST_RUNS = 6;

export interface KeptRuns {
  /** The control that chooses the x axis of the curves. */
  readonly control: () => VNode;
  /** The loss of the run, drawn over those of earlier runs. */
  readonly chart: (
    options: Pick<LineChart, 'title' | 'isLogarithmic' | 'yRange' | 'mark'>,
  ) => VNode;
  /** A comparison of the runs. Null before the second run. */
  readonly comparison: () => VNode | null;
}

/**
 * Keeps the runs of a part of the page, so that the reader can compare them. `steps` is the number of steps of a run.
 * `units` are the rows or tokens of a step.
 */
export function useKeptRuns<Look>(
  state: ShallowRef<LiveState<Look> | undefined>,
  {
    name,
    steps,
    units,
  }: {
    readonly name: () => string;
    readonly steps: number;
    readonly units: { readonly name: string; readonly perStep: number };
  },
): KeptRuns {
  const runs = shallowRef<readonly KeptRun[]>([]);
  const over = ref('steps');
  watch(state, (now, before) => {
    if (now?.status !== 'over' || before?.status === 'over' || now.losses.length === 0) return;
    runs.value = [...runs.value, keptRunOf(now, name())].slice(-MOST_RUNS);
  });

  /** Returns the runs to draw. The current run comes last. */
  const drawn = (): readonly KeptRun[] => {
    const now = state.value;
    const runsNow = now === undefined || now.status === 'over' ? [] : [keptRunOf(now, name())];
    return [...runs.value, ...runsNow];
  };
  const x = (run: KeptRun, index: number): number =>
    over.value === 'steps'
      ? index + 1
      : over.value === 'seconds'
        ? (run.seconds[index] ?? 0)
        : (index + 1) * units.perStep;

  return {
    control: () => choice('Curves over', over, ['steps', 'seconds', units.name]),
    chart: (options) => {
      const all = drawn();
      const lines = all.map((run, index): Line => ({
        name: `${index + 1}: ${run.name}`,
        rank: index,
        points: run.losses.map((loss, at) => [x(run, at), loss] as const),
      }));
      const longest = Math.max(0, ...all.map(({ seconds }) => seconds.at(-1) ?? 0));
      return lineChart({
        xTitle: over.value,
        most:
          over.value === 'seconds'
            ? axisEnd(Math.max(1, longest))
            : steps * (over.value === 'steps' ? 1 : units.perStep),
        lines,
        ...options,
      });
    },
    comparison: () => (runs.value.length < 2 ? null : comparisonOf(runs.value)),
  };
}

function keptRunOf<Look>(
  { losses, reports, ranks, device }: LiveState<Look>,
  name: string,
): KeptRun {
  const most = (of: 'statesBytes' | 'plannedBytes'): number | undefined => {
    const known = ranks.flatMap(({ snapshot }) => snapshot?.[of] ?? []);
    return known.length === 0 ? undefined : Math.max(...known);
  };
  return {
    name: device?.kind === 'webgpu' ? `${name}, ${deviceTitle(device)}` : name,
    losses,
    seconds: secondsOf(reports, losses.length),
    keptBytes: most('statesBytes'),
    plannedBytes: most('plannedBytes'),
  };
}

/** Returns the time when the last rank finished each step. */
function secondsOf(reports: readonly Report[], steps: number): readonly number[] {
  const seconds = Array.from({ length: steps }, () => 0);
  for (const { step, atMs } of reports) {
    if (step <= steps) seconds[step - 1] = Math.max(seconds[step - 1] ?? 0, atMs / 1000);
  }
  return seconds;
}

function comparisonOf(runs: readonly KeptRun[]): VNode {
  const bytes = (value: number | undefined): string =>
    value === undefined ? '–' : bytesText(value);
  return table(
    'The runs so far',
    [
      { title: 'run' },
      { title: 'last loss', isNumber: true },
      { title: 'a rank keeps', isNumber: true },
      { title: 'its plan says', isNumber: true },
      { title: 'took', isNumber: true },
    ],
    runs.map(({ name, losses, seconds, keptBytes, plannedBytes }, index) => [
      `${index + 1}: ${name}`,
      losses.at(-1)?.toPrecision(6) ?? '–',
      bytes(keptBytes),
      bytes(plannedBytes),
      `${(seconds.at(-1) ?? 0).toFixed(1)} s`,
    ]),
  );
}
