import { ConfigError, Tensor, type Updater, type UpdateRequest } from '@shardwise/core/extend';
import type { AuditedRounds } from './audited-rounds.ts';
import type { Fragment, Meeting } from './fragment.ts';
import type { MeetingClock } from './members/meeting-times.ts';
import type { MemberState } from './members/members.ts';
import type { Agreed } from './members/outer-group.ts';
import { fragmentsOf, stateBytes } from './members/state-bytes.ts';

/** Where a rank stands between two outer steps. */
export interface Progress {
  /** The number of updates since the latest outer step. */
  readonly updates: number;
  /** The number of outer steps of all fragments. */
  readonly outerSteps: number;
}

/** Lets optimizers update on this rank alone, and takes the outer steps in between. */
export class OuterUpdater implements Updater {
  readonly name: string;
  readonly keepsStates = false;
  readonly averagesLater = false;
  readonly fragments: readonly Fragment[];
  readonly #meeting: Meeting;
  readonly #clock: MeetingClock;
  /** How updates are made that others make again. Null: the program makes them. */
  readonly #audited: AuditedRounds | null;
  #hasProbed = false;
  /** The parameters that are updated together. Null before the first update. */
  #updated: ReadonlySet<object> | null = null;
  #progress: Progress = { updates: 0, outerSteps: 0 };

  constructor(
    name: string,
    fragments: readonly Fragment[],
    meeting: Meeting,
    clock: MeetingClock,
    audited: AuditedRounds | null,
  ) {
    this.name = name;
    this.fragments = fragments;
    this.#meeting = meeting;
    this.#clock = clock;
    this.#audited = audited;
  }

  get progress(): Progress {
    return this.#progress;
  }

  /** The program may change a parameter at any time, as the optimizer does. */
  checkAssign(): void {}

  async step({ groups, updateHere }: UpdateRequest): Promise<void> {
    const updated = groups.flatMap(({ params }) => params);
    this.#requireOneOptimizer(new Set(updated));
    this.#requireKnown(updated);
    if (this.#audited !== null) return this.#audited.step(updateHere);
    // The gradients of a newcomer are those of the values that it came with.
    if (await this.begin()) return;
    await updateHere();
    await this.#count();
  }

  /** The next update is learned from so many tokens. Throws ConfigError if they do not count. */
  countTokens(tokens: number): void {
    if (!this.#meeting.group.isWeighted) throw withoutWeights(this.name);
    for (const fragment of this.fragments) fragment.countTokens(tokens);
  }

  /** Makes an update that others can make again. Returns the loss. */
  async update(): Promise<number> {
    const [audited, { audits }] = [this.#audited, this.#meeting.group];
    if (audited === null || audits === null) throw withoutAudit(this.name);
    if (!this.#hasProbed) {
      await this.#beginFragments();
      await audits.computesAs(await audited.probe());
      this.#hasProbed = true;
    }
    await this.begin();
    const { updates, outerSteps } = this.#progress;
    const loss = await audited.update(outerSteps, audits.seed);
    if (this.#clock.meets(updates + 1)) {
      const { seed, middle } = audited.end();
      await audits.commit(outerSteps, seed, middle);
    }
    await this.#count();
    return loss;
  }

  /** Counts an update, and takes the outer step that is due after it. */
  async #count(): Promise<void> {
    const { outerSteps } = this.#progress;
    const updates = this.#progress.updates + 1;
    this.#progress = { updates, outerSteps };
    if (await this.#clock.sends(updates)) await this.#turn().send(this.#meeting, outerSteps);
    if (!this.#clock.meets(updates)) return;
    await this.#finish(await this.#turn().receive());
    await this.#takeMissed();
  }

  /**
   * Takes the values with which all ranks begin, unless it has them already. So weights may be loaded until the first
   * update. Resolves with whether they are those of others. Throws CollectiveMismatchError on every rank if the ranks of a
   * fixed group have different ones.
   */
  async begin(): Promise<boolean> {
    const { group } = this.#meeting;
    const isRestored = this.fragments.every(({ state }) => state !== null);
    if (!isRestored) await this.#beginFragments();
    const anchors = this.fragments.flatMap(({ state: own }) => own?.anchor ?? []);
    const state = await group.begin({ anchors, isRestored, state: () => this.#state() });
    if (state === null) return false;
    await this.#replace(state);
    await this.#takeMissed();
    return true;
  }

  async #beginFragments(): Promise<void> {
    for (const fragment of this.fragments) {
      if (fragment.state === null) await fragment.begin(this.#meeting);
    }
  }

  /** Takes an outer step of every fragment now, so that all ranks have one model. It is a collective. */
  async synchronize(): Promise<void> {
    const { group } = this.#meeting;
    if (!group.isFixed) throw cannotSynchronize(this.name);
    await this.begin();
    for (const fragment of this.fragments) {
      if (fragment.agreed !== null) await this.#meet(fragment, this.#meeting);
    }
    const meeting = { ...this.#meeting, alpha: 0 };
    for (const fragment of this.fragments) {
      await fragment.send(meeting, this.#progress.outerSteps);
      await this.#meet(fragment, meeting);
    }
    this.#progress = { updates: 0, outerSteps: 0 };
  }

  /**
   * Whether a message that is on its way can be waited for and saved. One for members that come and go belongs to a round
   * of this connection.
   */
  get savesMessages(): boolean {
    return this.#meeting.group.isFixed;
  }

  /** Throws ConfigError for a member that trains in its run: the others do not go back with it. */
  checkRestore(): void {
    if (!this.savesMessages && this.#updated !== null) throw cannotRestore(this.name);
  }

  /** Goes on from where a run stood. The states of the fragments are restored separately. */
  restore({ updates, outerSteps }: Progress): void {
    this.#progress = { updates: this.savesMessages ? updates : 0, outerSteps };
  }

  async #meet(fragment: Fragment, meeting: Meeting): Promise<void> {
    const agreed = await fragment.receive();
    if (agreed.kind === 'vector') await fragment.meet(agreed.vector, meeting);
  }

  /** Takes the outer step of the fragment whose turn it is. */
  async #finish(agreed: Agreed): Promise<void> {
    if (agreed.kind === 'state') return this.#replace(agreed.state);
    const { outerSteps } = this.#progress;
    if (agreed.kind === 'vector') await this.#turn().meet(agreed.vector, this.#meeting);
    this.#progress = { updates: 0, outerSteps: outerSteps + 1 };
    await this.#meeting.group.took(() => this.#state());
  }

  /** Takes the outer steps that others have taken meanwhile, until this rank takes part again. */
  async #takeMissed(): Promise<void> {
    const { group } = this.#meeting;
    for (;;) {
      await this.#makeAgain();
      const agreed = await group.missed(this.#progress.outerSteps);
      if (agreed === null) break;
      await this.#finish(agreed);
    }
    await this.#clock.begin();
  }

  /** Makes the updates of others again that this member is asked for. The run goes on without it meanwhile. */
  async #makeAgain(): Promise<void> {
    const [audited, { audits }] = [this.#audited, this.#meeting.group];
    if (audited === null || audits === null) return;
    for (let task = audits.next(); task !== null; task = audits.next()) {
      await audits.answer(task, await audited.again(task));
    }
  }

  /** What ranks have in common now. */
  #state(): MemberState {
    const { outerSteps: completed } = this.#progress;
    return { completed, bytes: stateBytes(this.fragments.map((each) => each.shared())) };
  }

  async #replace({ completed, bytes }: MemberState): Promise<void> {
    const shared = fragmentsOf(
      bytes,
      this.fragments.map(({ elements }) => elements),
    );
    for (const [at, fragment] of this.fragments.entries()) {
      const { [at]: own } = shared;
      if (own !== undefined) await fragment.replace(own, this.#meeting);
    }
    this.#progress = { updates: 0, outerSteps: completed };
    await this.#meeting.group.took(() => this.#state());
  }

  #turn(): Fragment {
    const { outerSteps } = this.#progress;
    const fragment = this.fragments[outerSteps % this.fragments.length];
    if (fragment === undefined) throw new RangeError('outer steps without fragments');
    return fragment;
  }

  /** Every update counts, so that all parameters must be updated at the same time. */
  #requireOneOptimizer(updated: ReadonlySet<object>): void {
    this.#updated ??= updated;
    const known = this.#updated;
    if (updated.size === known.size && updated.isSubsetOf(known)) return;
    throw new ConfigError(
      {
        asked: `an update of ${updated.size} parameters under ${this.name}`,
        found: `the first update was one of ${known.size} parameters, and ranks meet after so many updates of all of them`,
        todo: 'Give one optimizer all parameters, in groups if their settings differ',
      },
      { parameters: updated.size, before: known.size },
    );
  }

  /** Throws ConfigError for a parameter that trains and that ranks would not agree on. */
  #requireKnown(updated: readonly object[]): void {
    const known = new Set<object>(this.fragments.flatMap(({ parts }) => parts));
    const frozen = updated.some((each) => {
      return each instanceof Tensor && each.part.requiresGrad && !known.has(each.part);
    });
    if (!frozen) return;
    throw new ConfigError({
      asked: `an update under ${this.name}`,
      found:
        'a parameter that trains now and was frozen when the strategy was applied, so that ranks would not share it',
      todo: 'Let all parameters train that ever will before parallelize(), and freeze them afterwards',
    });
  }
}

function withoutAudit(strategy: string): ConfigError {
  return new ConfigError({
    asked: `outer.update() of ${strategy}`,
    found: 'a strategy that does not know how an update is made',
    todo: 'Give diloco the option `audit`, or call the step() of your optimizer',
  });
}

function withoutWeights(strategy: string): ConfigError {
  return new ConfigError({
    asked: `outer.countTokens() of ${strategy}`,
    found: 'updates that all count the same',
    todo: 'Give diloco `weighted: true`, or leave out the call',
  });
}

function cannotRestore(strategy: string): ConfigError {
  return new ConfigError({
    asked: `to load the outer steps of ${strategy}`,
    found: 'a member that trains already, with others who do not go back to this state with it',
    todo: 'Load the state before the first optimizer.step()',
  });
}

function cannotSynchronize(strategy: string): ConfigError {
  return new ConfigError({
    asked: `to take an outer step of ${strategy} now`,
    found: 'members that come and go, of which the others do not take it at the same time',
    todo: 'Evaluate and save after an optimizer step in which strategy.outer.outerSteps has grown: all members have the same values then',
  });
}
