import {
  h,
  onBeforeUnmount,
  onMounted,
  ref,
  shallowRef,
  type Ref,
  type ShallowRef,
  type VNode,
} from 'vue';
import { explorer } from '../explorers/controls.ts';
import { millisecondsText } from '../explorers/quantities.ts';
import { useDeviceChoice } from './device-choice.ts';
import { LiveRun, type LiveOptions, type LiveState } from './live-run.ts';
import { usePortsNotice } from './ports-notice.ts';
import { ranksTable } from './ranks-table.ts';
import { Timeline } from './timeline.ts';

/** The least time between two spoken texts of the status. */
const SPEAK_MS = 4000;

export interface LiveSettings {
  /** The name of the part of the page, for people who don't see it. */
  readonly title: string;
  readonly size: Ref<number>;
  /** Returns the options when the reader starts. Throws if the choices make no training. */
  readonly options: () => Omit<LiveOptions, 'device'>;
  /**
   * Returns the options of the next training when one has done its steps. Returns undefined if there is none. Default:
   * none.
   */
  readonly next?: () => Omit<LiveOptions, 'device'> | undefined;
  /** Whether the reader may end a rank. Default: true. */
  readonly kills?: boolean;
}

export interface LiveView<Look> {
  readonly state: ShallowRef<LiveState<Look> | undefined>;
  /** Draws the controls, which are fixed while it runs, buttons, status, `drawings`, and the ranks. */
  readonly frame: (controls: readonly VNode[], drawings: readonly (VNode | null)[]) => VNode;
  /** Draws only `drawings`, one button and the status. */
  readonly smallFrame: (drawings: readonly VNode[]) => VNode;
}

/**
 * A training that the reader starts, pauses, steps and ends. Nothing runs before the reader starts it. It pauses when
 * the page is not visible.
 */
export function useLiveRun<Look>(settings: LiveSettings): LiveView<Look> {
  const { title, size, options, next: nextOptions, kills = true } = settings;
  const state = shallowRef<LiveState<Look>>();
  const portsNotice = usePortsNotice();
  const { device, control: deviceControl } = useDeviceChoice();
  const problem = ref('');
  const spoken = ref('');
  const canRun = ref(false);
  let run: LiveRun<Look> | undefined;
  let stepTokens = 0;
  let steps = 0;
  let spokenAt = 0;

  const status = (now: LiveState<Look>): string => statusOf(now, steps, stepTokens);

  const reset = (): void => {
    run?.dispose();
    run = undefined;
    state.value = undefined;
    problem.value = '';
  };

  const show = (next: LiveState<Look>): void => {
    state.value = next;
    if (next.status === 'over' || performance.now() - spokenAt > SPEAK_MS) {
      spokenAt = performance.now();
      spoken.value = status(next);
    }
    if (next.status === 'over' && isDone(next)) goOn();
  };

  const fail = (error: unknown): void => {
    reset();
    problem.value = error instanceof Error ? error.message : String(error);
  };

  const launch = (chosen: Omit<LiveOptions, 'device'>, paused: boolean): void => {
    run?.dispose();
    stepTokens = chosen.stepTokens ?? 0;
    steps = chosen.steps;
    const started = new LiveRun<Look>({ ...chosen, device: device.value }, show);
    run = started;
    if (paused) started.step();
    started.start().catch(fail);
  };

  const goOn = (): void => {
    const chosen = nextOptions?.();
    if (chosen !== undefined) launch(chosen, false);
  };

  const start = (paused: boolean): void => {
    reset();
    try {
      launch(options(), paused);
    } catch (error) {
      fail(error);
    }
  };

  const pauseWhenHidden = (): void => {
    if (document.hidden) run?.pause();
  };
  onMounted(() => {
    canRun.value = typeof Float16Array !== 'undefined' && typeof Worker !== 'undefined';
    if (!canRun.value) problem.value = 'This browser lacks Float16Array. Update it to train here.';
    document.addEventListener('visibilitychange', pauseWhenHidden);
  });
  onBeforeUnmount(() => {
    reset();
    document.removeEventListener('visibilitychange', pauseWhenHidden);
  });

  /** Starts, pauses and continues, whichever is next. */
  const mainButton = (now: LiveState<Look> | undefined): VNode =>
    now?.status === 'running'
      ? button('Pause', false, () => run?.pause(), true)
      : now?.status === 'paused'
        ? button('Go on', false, () => run?.resume(), true)
        : button('Train', !canRun.value || isAlive(now), () => start(false), true);

  const buttons = (now: LiveState<Look> | undefined): VNode => {
    const last = size.value - 1;
    return h('div', { class: 'buttons' }, [
      mainButton(now),
      button('Step', !canRun.value || now?.status === 'running' || now?.status === 'starting', () =>
        now?.status === 'paused' ? run?.step() : start(true),
      ),
      button('Stop', !isAlive(now), reset),
      kills && last > 0
        ? button(`Kill rank ${last}`, !isAlive(now) || now?.status === 'starting', () =>
            run?.kill(last),
          )
        : null,
    ]);
  };

  const messages = (now: LiveState<Look> | undefined): readonly (VNode | null)[] => [
    problem.value === '' ? null : h('p', { class: 'problem', role: 'alert' }, problem.value),
    h('p', { class: 'summary' }, now === undefined ? 'Not started.' : status(now)),
    h('p', { class: 'visually-hidden', 'aria-live': 'polite' }, spoken.value),
  ];

  const frame: LiveView<Look>['frame'] = (controls, drawings) => {
    const now = state.value;
    return explorer(title, [
      h('fieldset', { class: 'controls', disabled: isAlive(now) }, [
        h('legend', { class: 'visually-hidden' }, 'What is trained'),
        ...controls,
        deviceControl(),
      ]),
      buttons(now),
      portsNotice(),
      ...messages(now),
      ...drawings,
      ...incidents(now),
      ranksTable(size.value, now),
      h(Timeline, { size: size.value, ranks: now?.ranks ?? [] }),
      // It stands at the end, where nothing moves when it appears.
      now === undefined || now.setting === '' ? null : h('p', { class: 'setting' }, now.setting),
    ]);
  };

  const smallFrame: LiveView<Look>['smallFrame'] = (drawings) =>
    explorer(title, [
      ...drawings,
      h('div', { class: 'buttons' }, [mainButton(state.value), ...messages(state.value)]),
    ]);
  return { state, frame, smallFrame };
}

function isAlive<Look>(state: LiveState<Look> | undefined): boolean {
  return state !== undefined && state.status !== 'over';
}

/** Whether all ranks have done all steps. */
function isDone<Look>({ ranks }: LiveState<Look>): boolean {
  return ranks.every(({ end }) => end?.status === 'closed');
}

function button(text: string, disabled: boolean, onClick: () => void, isPrimary = false): VNode {
  return h('button', { type: 'button', disabled, class: { primary: isPrimary }, onClick }, text);
}

function incidents<Look>(state: LiveState<Look> | undefined): readonly VNode[] {
  return (state?.incidents ?? []).map(({ rank, named, resumedFrom }) =>
    h('div', { class: 'problem' }, [
      h('p', `Rank ${rank} was killed. The others said:`),
      h(
        'ul',
        named.map((text) => h('li', text)),
      ),
      h(
        'p',
        resumedFrom === 0
          ? 'There was no checkpoint yet: all ranks were started again, from the beginning.'
          : `All ranks were started again, from the checkpoint of step ${resumedFrom}.`,
      ),
    ]),
  );
}

function statusOf<Look>(
  { status, losses, stepMs, ranks, notice }: LiveState<Look>,
  steps: number,
  stepTokens: number,
): string {
  if (status === 'starting') return 'Ranks are starting.';
  const failed = ranks.some(({ end }) => end?.status === 'failed');
  const loss = losses.at(-1);
  const speed =
    stepTokens > 0 && stepMs > 0
      ? `, ${Math.round((1000 * stepTokens) / stepMs).toLocaleString('en')} tokens/s`
      : '';
  const done = `${losses.length} of ${steps} steps, loss ${loss?.toPrecision(3) ?? '–'}`;
  if (failed) return `Ended after ${done}.`;
  const words = { running: 'Training', paused: 'Paused', over: 'Done' } as const;
  const end = notice === '' ? '' : ` ${notice}`;
  return `${words[status]}: ${done}, ${millisecondsText(stepMs)} a step${speed}.${end}`;
}
