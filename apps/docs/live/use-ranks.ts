import type { PageRun, RankEnd } from 'shardwise/browser';
import { usePortsNotice } from './ports-notice.ts';
import { h, onBeforeUnmount, onMounted, ref, shallowRef, type ShallowRef, type VNode } from 'vue';
import { type Allowance, type LiveJob, READY } from './live-job.ts';

/** The longest duration of a run. */
const MOST_MS = 180_000;
const ARENA_BYTES = 16 << 20;

/** What the page knows about its ranks. */
interface RanksState<Value> {
  /** How the ranks communicate, and why. */
  readonly setting: string;
  /** The values that each rank has sent, by rank. */
  readonly values: readonly (readonly Value[])[];
  readonly ends: readonly (RankEnd | undefined)[];
}

export interface RanksView<Value> {
  /** Undefined before the first start. */
  readonly state: ShallowRef<RanksState<Value> | undefined>;
  /** Ends the current ranks and starts new ones. Each of them gets `task`. */
  readonly start: (size: number, task: unknown, script: () => Worker) => void;
  /** Lets ranks that wait for the page go on up to this step. */
  readonly allow: (steps: number) => void;
  /** Posts another message to each rank. */
  readonly post: (message: unknown) => void;
  readonly stop: () => void;
  /** Whether this browser can run ranks. */
  readonly canRun: () => boolean;
  /** Says how the ranks communicate, and what went wrong. */
  readonly notes: () => readonly (VNode | null)[];
}

/** Ranks of the page that do something else than train. They are ended after some minutes. */
export function useRanks<Value>(): RanksView<Value> {
  const state = shallowRef<RanksState<Value>>();
  const portsNotice = usePortsNotice();
  const problem = ref('');
  const isReady = ref(false);
  let workers: Worker[] = [];
  let run: PageRun | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let allowed = 0;
  /** Counts starts. Messages of ranks of an earlier start are ignored. */
  let round = 0;

  const stop = (): void => {
    round += 1;
    clearTimeout(timer);
    run?.terminate();
    run = undefined;
    workers = [];
    allowed = 0;
  };

  const change = (rank: number, part: { value?: Value; end?: RankEnd }): void => {
    const now = state.value;
    if (now === undefined) return;
    const { value, end } = part;
    state.value = {
      ...now,
      values: now.values.map((own, index) =>
        index === rank && value !== undefined ? [...own, value] : own,
      ),
      ends: now.ends.map((own, index) => (index === rank && end !== undefined ? end : own)),
    };
  };

  const launch = async (size: number, task: unknown, script: () => Worker): Promise<void> => {
    const own = round;
    const { startRanks } = await import('shardwise/browser');
    if (own !== round) return;
    const started = await startRanks({
      size,
      device: 'wasm',
      arenaBytes: ARENA_BYTES,
      data: { task, seed: 1, steps: 0, checkpoint: undefined } satisfies LiveJob,
      script: () => {
        const worker = script();
        workers.push(worker);
        return worker;
      },
      onValue: (value, rank) => {
        if (own !== round) return;
        // The ranks of this page send no other messages.
        if (value !== READY) change(rank, { value: value as Value });
        else workers[rank]?.postMessage({ allowedSteps: allowed } satisfies Allowance);
      },
      onEnd: (end) => {
        if (own === round) change(end.rank, { end });
      },
    });
    if (own !== round) return started.terminate();
    run = started;
    const { transport } = started;
    const way = transport.kind === 'threads' ? 'shared memory' : 'message ports';
    if (state.value === undefined) return;
    state.value = { ...state.value, setting: `${size} ranks, by ${way} (${transport.reason})` };
  };

  const start: RanksView<Value>['start'] = (size, task, script) => {
    stop();
    problem.value = '';
    state.value = {
      setting: '',
      values: Array.from({ length: size }, () => []),
      ends: Array.from({ length: size }, () => undefined),
    };
    timer = setTimeout(() => {
      problem.value = `The ranks have run for ${MOST_MS / 60_000} minutes and were ended.`;
      stop();
    }, MOST_MS);
    launch(size, task, script).catch((error: unknown) => {
      stop();
      problem.value = error instanceof Error ? error.message : String(error);
    });
  };

  onMounted(() => {
    isReady.value = typeof Float16Array !== 'undefined' && typeof Worker !== 'undefined';
    if (!isReady.value) problem.value = 'This browser lacks Float16Array. Update it to run ranks.';
  });
  onBeforeUnmount(stop);

  const post = (message: unknown): void => {
    for (const worker of workers) worker.postMessage(message);
  };

  return {
    state,
    start,
    stop,
    post,
    canRun: () => isReady.value,
    allow: (steps) => {
      allowed = steps;
      post({ allowedSteps: steps } satisfies Allowance);
    },
    notes: () => [
      portsNotice(),
      problem.value === '' ? null : h('p', { class: 'problem', role: 'alert' }, problem.value),
      (state.value?.setting ?? '') === ''
        ? null
        : h('p', { class: 'setting' }, state.value?.setting),
    ],
  };
}
