import { DataError, Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import * as fc from 'fast-check';
import OpenAI from 'openai';
import { beforeAll, describe, expect, test } from 'vitest';
import { Automaton, type AutomatonState } from '../src/constraints/automaton.ts';
import { patternOfAnyObject, patternOfSchema } from '../src/constraints/json-schema.ts';
import { OutputConstraints } from '../src/constraints/output-constraints.ts';
import type { Pattern } from '../src/constraints/pattern.ts';
import { patternOfExpression } from '../src/constraints/regular-expression.ts';
import type { TokenConstraint } from '../src/constraints/token-constraint.ts';
import { complete } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import type { GenerationRequest } from '../src/engine/generation-request.ts';
import { openAIApp } from '../src/http/openai-app.ts';
import { useCpu } from './models.ts';

beforeAll(useCpu);

function matches(pattern: Pattern, text: string): boolean {
  const automaton = new Automaton(pattern);
  let state: AutomatonState | null = automaton.start;
  for (const each of text) state &&= automaton.next(state, each.codePointAt(0) ?? 0);
  return state?.accepts === true;
}

describe('A regular expression', () => {
  test.each([
    'a|bc|',
    '[a-c]{2,4}x?',
    '(?:ab)+c*',
    String.raw`\d{1,3}(\.\d+)?`,
    String.raw`[^a-b\d]b.`,
    String.raw`\w+\s\S\(\]`,
    '^(a|b)*abb$',
    '[-+]?a{2,}',
  ])('%s matches what that of JavaScript matches', (source) => {
    const [own, expected] = [patternOfExpression(source), new RegExp(`^(?:${source})$`)];
    const letters = fc.constantFrom(...Array.from('abcx019. _-+(]\n'));
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 7 }), (all) => {
        const text = all.join('');
        expect(matches(own, text), JSON.stringify(text)).toBe(expected.test(text));
      }),
      { numRuns: 400 },
    );
  });

  test.each([
    ['(?=a)', 'a group of a special kind'],
    [String.raw`(a)\1`, String.raw`'\1'`],
    ['(a', 'a group that does not end'],
    ['a{3,1}', 'numbers of repetitions'],
    ['a{2000}', '2000 of repetitions'],
    ['[z-a]', 'a range of characters that is none'],
    ['*a', "'*' where a character is expected"],
    ['a**', 'a repetition of another'],
    ['a)', "')'"],
    [String.raw`\bword`, String.raw`'\b'`],
  ])('%s is refused', (source, message) => {
    expect(() => patternOfExpression(source)).toThrow(message);
  });

  test('is refused if it has too many characters, written out', () => {
    const nested = '((((a{90}){90}){90}){90})';
    expect(() => new Automaton(patternOfExpression(nested))).toThrow('more than 20000 characters');
  });
});

const person = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 6 },
    age: { type: 'integer' },
    tags: { type: 'array', items: { $ref: '#/$defs/tag' }, maxItems: 2 },
  },
  required: ['name', 'age'],
  additionalProperties: false,
  $defs: { tag: { enum: ['x', 'y"z', 3, null] } },
};

/** A schema that contains itself. */
const tree = {
  $ref: '#/$defs/node',
  $defs: {
    node: {
      type: 'object',
      properties: {
        name: { type: 'string' },
        children: { type: 'array', items: { $ref: '#/$defs/node' } },
      },
      required: ['name'],
    },
  },
};

describe('A JSON schema', () => {
  test.each([
    [person, '{"name":"Ada","age":36}', true],
    [person, '{"name": "Ada", "age": 36, "tags": ["x", "y\\"z"]}', true],
    [person, '{"name":"A\\n\\u00e9","age":-1,"tags":[]}', true],
    [person, '{"age":36,"name":"Ada"}', false],
    [person, '{"name":"Ada"}', false],
    [person, '{"name":"","age":1}', false],
    [person, '{"name":"Ada","age":01}', false],
    [person, '{"name":"Ada","age":1,"tags":["x","x","x"]}', false],
    [person, '{"name":"Ada","age":1,"more":2}', false],
    [
      { type: 'object', properties: { a: { type: 'null' }, b: { type: 'boolean' } } },
      '{"b":true}',
      true,
    ],
    [{ type: 'object', properties: { a: { type: 'null' }, b: { type: 'boolean' } } }, '{}', true],
    [
      { type: 'object', properties: { a: { type: 'null' }, b: { type: 'boolean' } } },
      '{,"b":true}',
      false,
    ],
    [{ anyOf: [{ type: 'number' }, { const: 'none' }] }, '-1.5e+3', true],
    [{ anyOf: [{ type: 'number' }, { const: 'none' }] }, '"none"', true],
    [{ type: ['string', 'null'] }, 'null', true],
    [tree, '{"name":"a","children":[{"name":"b"},{"name":"c","children":[]}]}', true],
    [tree, '{"name":"a","children":[{"name":"b"},{"children":[]}]}', false],
    [{ type: 'string', pattern: '^[A-Z]{2}.$' }, '"ABc"', true],
    [{ type: 'string', pattern: '^[A-Z]{2}.$' }, '"AB""', false],
    [{ type: 'array', items: { type: 'integer' }, minItems: 2 }, '[1]', false],
    [{ type: 'array', items: { type: 'integer' }, minItems: 2 }, '[1, 2, 3]', true],
  ])('%j and the text %s', (schema, text, isValid) => {
    expect(matches(patternOfSchema(schema), text)).toBe(isValid);
  });

  const itself = {
    $ref: '#/$defs/list',
    $defs: { list: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/list' }] } },
  };
  test.each([
    [{ enum: [] }, 'cannot be met'],
    [{ type: 'string', minLength: 3, maxLength: 2 }, 'cannot be met'],
    [{ type: 'nonsense' }, 'the type "nonsense"'],
    [{ type: 'integer', minimum: 3 }, "'minimum', which is not known here"],
    [{ type: 'object', properties: {}, required: ['a'] }, "a required 'a' that is no property"],
    [{ type: 'object', additionalProperties: true }, 'of which the names are not known'],
    [{ $ref: '#/nowhere' }, 'which is not there'],
    [itself.$defs.list, 'which is not there'],
    [{ ...itself.$defs.list, $defs: itself.$defs }, 'which begins with itself'],
    [
      {
        $ref: '#/$defs/node',
        $defs: {
          node: {
            type: 'object',
            properties: { next: { $ref: '#/$defs/node' } },
            required: ['next'],
          },
        },
      },
      'which never ends, so that it cannot be met',
    ],
    [{ type: 'string', pattern: 'a' }, 'of a part of a text'],
    [false, 'at its root'],
  ])('%j is refused', (schema, message) => {
    expect(() => patternOfSchema(schema)).toThrow(message);
  });
});

describe('Any object of JSON', () => {
  test.each([
    ['{}', true],
    ['{"a": [1, {"b":null}, [], "x\\n"], "c":-1e3}', true],
    ['[1]', false],
    ['{"a":}', false],
    ['{"a":1,}', false],
    ['{"a":[}', false],
  ])('%s: %s', (text, isValid) => {
    expect(matches(patternOfAnyObject(), text)).toBe(isValid);
  });

  test('is what JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        expect(matches(patternOfAnyObject(), JSON.stringify(value))).toBe(true);
      }),
      { numRuns: 30 },
    );
  });
});

test('A schema whose parts multiply is refused, and so is a form with too many ways to continue.', () => {
  const doubled = (depth: number): object => {
    const names = Array.from({ length: depth }, (_, index) => `d${index}`);
    const next = (index: number): object => ({ $ref: `#/$defs/d${index + 1}` });
    const $defs = Object.fromEntries(
      names.map((name, index) => [
        name,
        index === depth - 1 ? { type: 'null' } : { anyOf: [next(index), next(index)] },
      ]),
    );
    return { anyOf: [{ $ref: '#/$defs/d0' }], $defs };
  };
  expect(() => patternOfSchema(doubled(15))).toThrow('more than 5000 parts');
  const slow = new Automaton(patternOfExpression('(.{0,900}){0,20}!'));
  const follow = (): void => {
    let state: AutomatonState | null = slow.start;
    for (let codePoint = 97; codePoint < 2000; codePoint++) {
      state &&= slow.next(state, codePoint);
    }
  };
  expect(follow).toThrow('too many ways to continue');
});

const tokenizer = byteTokenizer();

function engineOf(eosTokenId: number | null = null): Engine {
  const config = {
    vocabSize: 260,
    nPositions: 256,
    nEmbd: 16,
    nLayer: 1,
    nHead: 2,
    initializerRange: 0.5,
    ...(eosTokenId === null ? {} : { rest: { eos_token_id: eosTokenId } }),
  };
  return new Engine(new GPT2LMHeadModel(config, { generator: new Generator(5) }), tokenizer);
}

describe('A constrained request', () => {
  const engineRequest = (constraint: TokenConstraint, seed: number): GenerationRequest => ({
    prompt: 'Once',
    maxNewTokens: 120,
    seed,
    constraint,
  });

  test.each([null, 2])(
    'gets texts of its form, beside others, with the end token %s',
    async (eos) => {
      const engine = engineOf(eos);
      const { constraints } = engine;
      const schema = {
        type: 'object',
        properties: { a: { enum: [1, 22] }, b: { type: 'boolean' } },
        required: ['a', 'b'],
      };
      const forms = [
        {
          constraint: constraints.jsonSchema(schema),
          form: /^\{"a": ?(1|22), ?"b": ?(true|false)\}$/,
        },
        { constraint: constraints.regularExpression('(ab|c){3}!'), form: /^(ab|c){3}!$/ },
        { constraint: constraints.choice(['yes', 'no']), form: /^(yes|no)$/ },
      ];
      const asked = [0, 1].flatMap((seed) => forms.map((each) => ({ ...each, seed })));
      const texts = await Promise.all([
        ...asked.map(({ constraint, seed }) =>
          complete(engine.generate(engineRequest(constraint, seed))),
        ),
        complete(engine.generate({ prompt: 'Other', maxNewTokens: 40, seed: 1 })),
      ]);
      for (const [index, { form }] of asked.entries()) {
        const [first] = texts[index] ?? [];
        expect(first?.text).toMatch(form);
        expect(first?.finishReason).toBe('stop');
      }
      // A constraint holds for one request alone.
      const [alone] = await complete(
        engine.generate({ prompt: 'Other', maxNewTokens: 40, seed: 1 }),
      );
      expect(texts.at(-1)?.[0]?.tokens).toEqual(alone?.tokens);
      await engine.dispose();
    },
  );

  test('ends with an error if no token may come, and the others go on', async () => {
    const engine = engineOf();
    const own = complete(
      engine.generate(engineRequest(new OutputConstraints(tokenizer, 260).choice(['é']), 1)),
    );
    const other = complete(engine.generate({ prompt: 'Other', maxNewTokens: 5, seed: 1 }));
    await expect(own).rejects.toThrow(DataError);
    expect((await other)[0]?.tokens).toHaveLength(5);
    expect(engine.statistics.usedBlocks).toBe(0);
  });

  test('is refused without a tokenizer', () => {
    const model = new GPT2LMHeadModel({
      vocabSize: 20,
      nPositions: 8,
      nEmbd: 4,
      nLayer: 1,
      nHead: 1,
    });
    expect(() => new Engine(model).constraints).toThrow('an engine without a tokenizer');
  });
});

describe('The server', () => {
  const post = async (path: string, fields: object): Promise<Response> => {
    const app = openAIApp({ models: [{ id: 'small', engine: engineOf(2), embed: null }] });
    const body = JSON.stringify({ model: 'small', max_tokens: 60, seed: 3, ...fields });
    return app.fetch(new Request(`http://localhost/v1/${path}`, { method: 'POST', body }));
  };
  const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] };
  const response_format = {
    type: 'json_schema',
    json_schema: { name: 'answer', strict: true, schema },
  };
  const messages = [{ role: 'user', content: 'Well?' }];

  test('answers a chat by response_format', async () => {
    const response = await post('chat/completions', { messages, response_format });
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
    expect(JSON.parse(choices[0]?.message.content ?? '')).toEqual({ ok: expect.any(Boolean) });
  });

  test('answers with some object of JSON by response_format, also in the newer interface', async () => {
    const format = { type: 'json_object' };
    const response = await post('chat/completions', { messages, response_format: format });
    const { choices } = (await response.json()) as {
      choices: { message: { content: string } }[];
    };
    expect(choices[0]?.message.content).toMatch(/^\{("|\})/);
    const asked = {
      input: 'Well?',
      max_tokens: undefined,
      seed: undefined,
      max_output_tokens: 40,
      text: { format },
    };
    const newer = await post('responses', asked);
    expect(await newer.json()).toMatchObject({
      output: [{ content: [{ text: expect.stringMatching(/^\{("|\})/) }] }],
      text: { format },
    });
  });

  test("answers by vLLM's structured_outputs", async () => {
    const structured_outputs = { regex: '[ab]{3}' };
    const response = await post('completions', { prompt: 'Once', structured_outputs });
    expect(await response.json()).toMatchObject({
      choices: [{ text: expect.stringMatching(/^[ab]{3}$/), finish_reason: 'stop' }],
    });
  });

  test('answers by the format of the newer interface, also as a stream, and says it again', async () => {
    const client = new OpenAI({
      baseURL: 'http://localhost/v1',
      apiKey: 'none',
      maxRetries: 0,
      fetch: async (url, init) => app.fetch(new Request(url, init)),
    });
    const app = openAIApp({ models: [{ id: 'small', engine: engineOf(2), embed: null }] });
    const format = { type: 'json_schema' as const, name: 'answer', schema };
    const asked = { model: 'small', input: 'Well?', max_output_tokens: 60, text: { format } };
    const answer = await client.responses.create(asked);
    expect(answer.status).toBe('completed');
    expect(answer.text).toEqual({ format });
    expect(JSON.parse(answer.output_text)).toEqual({ ok: expect.any(Boolean) });
    const final = await client.responses.stream(asked).finalResponse();
    expect(JSON.parse(final.output_text)).toEqual({ ok: expect.any(Boolean) });
    const wrong = { ...asked, text: { format: { ...format, schema: { enum: [] } } } };
    await expect(client.responses.create(wrong)).rejects.toMatchObject({
      status: 400,
      param: 'text.format',
      message: expect.stringContaining('cannot be met'),
    });
  });

  test('refuses a schema that cannot be met with 400, and names the field', async () => {
    const wrong = { type: 'json_schema', json_schema: { name: 'answer', schema: { enum: [] } } };
    const response = await post('chat/completions', { messages, response_format: wrong });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { param: 'response_format', message: expect.stringContaining('cannot be met') },
    });
  });
});
