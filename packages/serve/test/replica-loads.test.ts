import { describe, expect, test } from 'vitest';
import { KnownPrefixes } from '../src/replicas/known-prefixes.ts';
import { type BegunRequest, type Replica, ReplicaLoads } from '../src/replicas/replica-loads.ts';
import { estimateOf } from '../src/replicas/request-estimate.ts';

/** A prompt of 100 tokens, of which a cache keeps six blocks of 16. */
const promptOf = (seed: number): number[] => Array.from({ length: 100 }, (_, i) => seed * 1000 + i);
const KEPT = 96;

/** Replicas, and who of them answers a request of a prompt and 10 new tokens. */
function router(maxKnownTokens?: number) {
  const replicas: { url: string | null }[] = [{ url: 'http://a' }, { url: 'http://b' }];
  const loads = new ReplicaLoads(replicas, maxKnownTokens);
  const begin = (prompt: readonly number[], tenant = '', model = 'm'): BegunRequest | null =>
    loads.begin(
      { tokens: prompt.length + 10, model, prompts: [prompt] },
      { tenant, among: replicas, lost: new Set() },
    );
  const indexOf = (replica: Replica | undefined): number =>
    replicas.findIndex((each) => each === replica);
  return {
    replicas,
    loads,
    begin,
    expected: () => replicas.map((replica) => loads.expectedOf(replica)),
    /** The number of the replica that a request goes to, and stays at. */
    goesTo: (prompt: readonly number[], tenant?: string, model?: string): number =>
      indexOf(begin(prompt, tenant, model)?.replica),
    /** The number of the replica that a request goes to, which is over at once. */
    visits: (prompt: readonly number[], tenant?: string, model?: string): number => {
      const begun = begin(prompt, tenant, model);
      begun?.end();
      return indexOf(begun?.replica);
    },
  };
}

describe('The choice of a replica', () => {
  test('is the one with the fewest tokens outstanding for prompts that have nothing in common.', () => {
    const { goesTo, expected } = router();
    expect([1, 2, 3, 4].map((seed) => goesTo(promptOf(seed)))).toEqual([0, 1, 0, 1]);
    expect(expected()).toEqual([0, 0]);
  });

  test('is the same for equal prompts until the tokens it has to do exceed those that it saves.', () => {
    const { visits, goesTo, expected } = router();
    expect(visits(promptOf(1))).toBe(0);
    // Each takes 110 tokens at the other replica and 110 - 96 = 14 here, of which seven are 98 and eight are 112.
    const chosen = Array.from({ length: 8 }, () => goesTo(promptOf(1)));
    expect(chosen).toEqual([0, 0, 0, 0, 0, 0, 0, 1]);
    expect(expected()).toEqual([7 * KEPT, 0]);
    // Now both know it.
    expect(goesTo(promptOf(1))).toBe(0);
  });

  test('weighs exactly the tokens that are known: 96 more outstanding are a tie, and 97 are too many.', () => {
    for (const [more, chosen] of [
      [95, 1],
      [96, 0],
      [97, 0],
    ] as const) {
      const { begin, visits, goesTo } = router();
      const hold = begin(promptOf(9));
      // While the first replica is busy, the second one gets to know the prompt.
      expect(visits(promptOf(1))).toBe(1);
      hold?.end();
      // A tie is decided for the first replica.
      expect(goesTo(Array.from({ length: 1 }, () => 7))).toBe(0);
      expect(goesTo(Array.from({ length: more + 1 }, () => 8))).toBe(1);
      expect(goesTo(promptOf(1)), `${more} more`).toBe(chosen);
    }
  });

  test('follows the common beginning of prompts.', () => {
    const { begin, visits } = router();
    const hold = begin(promptOf(9));
    expect(visits([...promptOf(1), ...promptOf(2)])).toBe(1);
    hold?.end();
    expect(visits([...promptOf(1), ...promptOf(3)])).toBe(1);
    // It begins with what stood behind the first prompt, of which no cache has keys and values.
    expect(visits(promptOf(2))).toBe(0);
  });

  test('knows nothing of what another tenant asked, or of what another model read.', () => {
    for (const [tenant, model] of [
      ['key 1', 'm'],
      ['key 0', 'adapter'],
    ] as const) {
      const { begin, visits } = router();
      const hold = begin(promptOf(9));
      expect(visits(promptOf(1), 'key 0')).toBe(1);
      hold?.end();
      expect(visits(promptOf(1), tenant, model)).toBe(0);
      expect(visits(promptOf(1), 'key 0')).toBe(1);
    }
  });

  test.each([
    ['that listens at another address', 'http://c'],
    ['that was lost', null],
  ])('forgets the prompts of a replica %s.', (_, url) => {
    const { replicas, loads, begin, visits } = router();
    const hold = begin(promptOf(9));
    expect(visits(promptOf(1))).toBe(1);
    hold?.end();
    const [, second] = replicas;
    if (second === undefined) expect.fail();
    if (url === null) loads.forget(second);
    else second.url = url;
    expect(visits(promptOf(1))).toBe(0);
  });

  test.each([9e15, 1e308])(
    'is as before when a request is over that asked for %d tokens as often.',
    (asked) => {
      const { replicas, loads, goesTo } = router();
      const body = JSON.stringify({ max_tokens: asked, n: asked, prompt: 'a' });
      const estimate = estimateOf('/v1/completions', new TextEncoder().encode(body));
      const options = { tenant: '', among: replicas, lost: new Set<string>() };
      const held = goesTo(promptOf(1));
      const vast = [loads.begin(estimate, options), loads.begin(estimate, options)];
      for (const begun of vast) begun?.end();
      expect([held, goesTo(promptOf(2)), goesTo(promptOf(3))]).toEqual([0, 1, 0]);
    },
  );

  test('is none of the replicas that do not listen or were tried in vain.', () => {
    const { replicas, loads, visits } = router();
    const [first] = replicas;
    if (first === undefined) expect.fail();
    expect(visits(promptOf(1))).toBe(0);
    const request = { tokens: 1, model: 'm', prompts: [promptOf(1)] };
    const options = { tenant: '', among: replicas };
    expect(loads.begin(request, { ...options, lost: new Set(['http://a']) })?.url).toBe('http://b');
    first.url = null;
    expect(loads.begin(request, { ...options, lost: new Set(['http://b']) })).toBeNull();
  });
});

describe('The prompts of a replica that are remembered', () => {
  test('are bounded, and those that were used least recently are forgotten.', () => {
    const known = new KnownPrefixes(2 * KEPT);
    known.add(promptOf(1), '');
    known.add(promptOf(2), '');
    // Looking at a prompt is no use of it.
    expect(known.lengthOf(promptOf(2), '')).toBe(KEPT);
    known.add(promptOf(1), '');
    known.add(promptOf(3), '');
    const lengths = (): number[] => [1, 2, 3].map((seed) => known.lengthOf(promptOf(seed), ''));
    expect(lengths()).toEqual([KEPT, 0, KEPT]);
    known.forget();
    expect(lengths()).toEqual([0, 0, 0]);
  });

  test('lose their ends first, and of a longer one than there is room for the beginning is kept.', () => {
    const known = new KnownPrefixes(2 * KEPT);
    known.add(promptOf(1), '');
    known.add(promptOf(2), '');
    known.add(promptOf(3).slice(0, 32), '');
    expect(known.lengthOf(promptOf(1), '')).toBe(KEPT - 32);
    const long = Array.from({ length: 1000 }, (_, i) => i);
    known.add(long, '');
    expect(known.lengthOf(long, '')).toBe(2 * KEPT);
  });
});

describe('A request is estimated', () => {
  const of = (body: unknown, path = '/v1/completions') =>
    estimateOf(
      path,
      new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body)),
    );

  test('by the length of its body and the tokens that it asks for, whatever it is.', () => {
    expect(of('{"max_tokens":100}').tokens).toBe(18 / 4 + 100);
    expect(of('{"n":3,"max_output_tokens":100}').tokens).toBe(31 / 4 + 300);
    expect(of('{"max_tokens":"many"}').tokens).toBe(21 / 4 + 256);
    for (const text of ['', '[]', 'null', '{', '{"n":-5}'])
      expect(of(text).tokens).toBeGreaterThanOrEqual(0);
  });

  test('by its prompts, of which each has its own beginning.', () => {
    const texts = of({ model: 'm', prompt: ['one text', 'another text'] });
    expect(texts.prompts).toEqual([
      ...of({ prompt: 'one text' }).prompts,
      ...of({ prompt: 'another text' }).prompts,
    ]);
    expect(texts.model).toBe('m');
    // [1,2,3,4] has nine bytes.
    expect(of({ prompt: [1, 2, 3, 4] }).prompts.map(({ length }) => length)).toEqual([2]);
    expect(of({ prompt: [[1], [2, 3]] }).prompts).toHaveLength(2);
  });

  test.each([
    ['/v1/chat/completions', 'messages'],
    ['/v1/responses', 'input'],
  ])('by the messages of a chat, whose next turn begins in the same way (%s).', (path, field) => {
    const first = [{ role: 'user', content: 'Tell me about caches, please.' }];
    const next = [...first, { role: 'assistant', content: 'No.' }, { role: 'user', content: '?' }];
    const promptAt = (fields: object): readonly number[] => of(fields, path).prompts[0] ?? [];
    const [begun, continued] = [promptAt({ [field]: first }), promptAt({ [field]: next })];
    expect(begun.length).toBeGreaterThan(10);
    // The last word has the bracket that ends the list.
    expect(continued.slice(0, begun.length - 1)).toEqual(begun.slice(0, -1));
    const tools = [{ type: 'function', function: { name: 'add' } }];
    expect(promptAt({ [field]: first, tools }).slice(0, 2)).not.toEqual(begun.slice(0, 2));
    if (field === 'input') expect(promptAt({ input: first[0]?.content })).toEqual(begun);
  });

  test('without prompts, if no cache keeps them or nobody can read them.', () => {
    expect(of({ input: 'a text' }, '/v1/embeddings').prompts).toEqual([]);
    const deep = `{"prompt":[${'['.repeat(200_000)}${']'.repeat(200_000)}]}`;
    expect(of(deep).prompts).toEqual([[]]);
    for (const prompt of [null, 5, {}, []]) expect(of({ prompt }).prompts).toEqual([]);
    expect(of({ model: 'm'.repeat(300) }).model).toBe('');
  });
});
