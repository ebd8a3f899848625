import { defineComponent, h, ref, type VNode } from 'vue';
import type { dist } from 'shardwise/browser';
import { axisEnd } from '../../explorers/axis.ts';
import { choice, slider, table } from '../../explorers/controls.ts';
import { millisecondsText } from '../../explorers/quantities.ts';
import { lineChart } from '../line-chart.ts';
import type { LiveState } from '../live-run.ts';
import { rankLabel } from '../rank-mark.ts';
import { useLiveRun } from '../use-live-run.ts';
import type { PortMessage, ServerLook, ServerTask } from './server-task.ts';

const STEPS = 150;

const consistencies = {
  synchronous: 'synchronous',
  'at most 4 steps stale': { staleness: 4 },
  asynchronous: 'asynchronous',
  'all but one worker': { backupWorkers: 1 },
} as const satisfies Readonly<Record<string, dist.servers.Consistency>>;

/** Trains workers of this page with a parameter server. Shows who waits, and how stale gradients are. */
export const LiveServers = defineComponent({
  name: 'LiveServers',
  setup() {
    const consistency = ref<keyof typeof consistencies>('synchronous');
    const delayMs = ref(20);
    const size = ref(3);
    const seed = ref(1);
    let server: Worker | undefined;

    const script = (): Worker => {
      const worker = new Worker(new URL('./server-rank.ts', import.meta.url), { type: 'module' });
      const { port1, port2 } = new MessageChannel();
      worker.postMessage({ requestPort: port1 } satisfies PortMessage, [port1]);
      server?.postMessage({ requestPort: port2 } satisfies PortMessage, [port2]);
      return worker;
    };
    const { state, frame } = useLiveRun<ServerLook>({
      title: 'Workers and a parameter server in this page',
      size,
      // The server keeps what the workers of a run have made, so another run needs another server.
      kills: false,
      options: () => {
        server = new Worker(new URL('./server-worker.ts', import.meta.url), { type: 'module' });
        const started = server;
        return {
          size: size.value,
          steps: STEPS,
          seed: seed.value,
          task: {
            consistency: consistencies[consistency.value],
            delayMs: delayMs.value,
          } satisfies ServerTask,
          script,
          onDispose: () => started.terminate(),
        };
      },
    });

    return (): VNode =>
      frame(
        [
          choice(
            'Consistency',
            consistency,
            Object.keys(consistencies) as readonly (keyof typeof consistencies)[],
          ),
          slider('Worker 0 is slower by', delayMs, { min: 0, max: 60, step: 5 }, 'ms'),
          choice('Workers', size, [2, 3, 4]),
          slider('Seed', seed, { min: 1, max: 20 }),
        ],
        [
          workers(size.value, state.value),
          h('div', { class: 'two' }, [
            lineChart({
              title: 'Loss of each worker, by time',
              xTitle: 'seconds',
              most: secondsEnd(state.value),
              isLogarithmic: true,
              yRange: [0.001, 1],
              lines: Array.from({ length: size.value }, (_, rank) => ({
                name: `worker ${rank}`,
                rank,
                points: (state.value?.reports ?? [])
                  .filter((report) => report.rank === rank)
                  .map(({ atMs, loss }) => [atMs / 1000, loss] as const),
              })),
            }),
            lineChart({
              title: 'Steps of each worker, by time',
              xTitle: 'seconds',
              most: secondsEnd(state.value),
              isLogarithmic: false,
              yRange: [0, STEPS],
              lines: Array.from({ length: size.value }, (_, rank) => ({
                name: `worker ${rank}`,
                rank,
                points: (state.value?.reports ?? [])
                  .filter((report) => report.rank === rank)
                  .map(({ atMs, step }) => [atMs / 1000, step] as const),
              })),
            }),
          ]),
        ],
      );
  },
});

/** Returns the end of an axis of time that contains all reports. */
function secondsEnd(state: LiveState<ServerLook> | undefined): number {
  return axisEnd(Math.max(1, (state?.reports.at(-1)?.atMs ?? 0) / 1000));
}

function workers(size: number, state: LiveState<ServerLook> | undefined): VNode {
  return table(
    'The workers',
    [
      { title: 'worker' },
      { title: 'steps done', isNumber: true },
      { title: 'ahead of the slowest', isNumber: true },
      { title: 'its gradient is stale by', isNumber: true },
      { title: 'at worst', isNumber: true },
      { title: 'waited for others', isNumber: true },
      { title: 'gradients dropped', isNumber: true },
    ],
    Array.from({ length: size }, (_, rank) => {
      const { step = 0, snapshot } = state?.ranks[rank] ?? {};
      const label = { text: `worker ${rank}`, node: rankLabel(rank, 'worker') };
      if (snapshot === undefined) return [label, step, '–', '–', '–', '–', '–'];
      const { lead, staleness, worstStaleness, waitedMs, late } = snapshot.look;
      return [
        label,
        step,
        `${lead} steps`,
        `${staleness} updates`,
        `${worstStaleness} updates`,
        millisecondsText(waitedMs),
        late,
      ];
    }),
  );
}
