import { Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import * as fc from 'fast-check';
import OpenAI, { BadRequestError } from 'openai';
import { beforeAll, describe, expect, test } from 'vitest';
import { Engine } from '../src/engine/engine.ts';
import { openAIApp } from '../src/http/openai-app.ts';
import { toolCallFormatOf } from '../src/http/tool-calls/tool-call-format.ts';
import {
  type AnswerPart,
  ToolCallReader,
  type ToolCallReaderOptions,
} from '../src/http/tool-calls/tool-call-reader.ts';
import { useCpu } from './models.ts';

beforeAll(useCpu);

/** Templates that show tools, and that write calls as those of well-known models do. */
function templateWith(call: string): string {
  return [
    '{% if tools %}{{ tools | tojson }}\n{% endif %}',
    '{% for message in messages %}{{ message.role }}: {{ message.content }}',
    `{% if message.tool_calls %}{% set call = message.tool_calls[0].function %}${call}{% endif %}`,
    '\n{% endfor %}',
  ].join('');
}
const fields = '"name": "{{ call.name }}", "KEY": {{ call.arguments | tojson }}';
const own = fields.replace('KEY', 'arguments');
const hermes = templateWith(`<tool_call>\n{${own}}\n</tool_call>`);
const mistral = templateWith(`[TOOL_CALLS][{${own}}]`);
const llama = templateWith(`{${fields.replace('KEY', 'parameters')}}`);

const weather = {
  type: 'function' as const,
  function: {
    name: 'weather',
    parameters: {
      type: 'object',
      properties: { city: { enum: ['Oslo', 'Rome'] }, days: { type: ['integer', 'null'] } },
      required: ['city'],
    },
  },
};
const clock = { type: 'function' as const, function: { name: 'clock' } };

function engineOf(chatTemplate: string): Engine {
  const config = {
    vocabSize: 260,
    nPositions: 768,
    nEmbd: 16,
    nLayer: 1,
    nHead: 2,
    initializerRange: 0.5,
  };
  const model = new GPT2LMHeadModel(
    { ...config, rest: { eos_token_id: 2 } },
    { generator: new Generator(5) },
  );
  return new Engine(model, byteTokenizer({ chatTemplate }));
}

/** A client of a server with an engine, or with one of a small model that has this template. */
function clientOf(own: string | Engine): OpenAI {
  const engine = typeof own === 'string' ? engineOf(own) : own;
  const app = openAIApp({ models: [{ id: 'small', engine, embed: null }] });
  return new OpenAI({
    baseURL: 'http://localhost/v1',
    apiKey: 'none',
    maxRetries: 0,
    fetch: async (url, init) => app.fetch(new Request(url, init)),
  });
}

describe('The form of calls is that of the chat template', () => {
  test.each([
    ['of Hermes and Qwen', hermes, { isList: false, argumentsName: 'arguments' }, true],
    ['of Mistral', mistral, { isList: true, argumentsName: 'arguments' }, false],
    ['of Llama 3', llama, { isList: false, argumentsName: 'parameters' }, false],
  ])('%s', (_, chatTemplate, format, hasTags) => {
    const found = toolCallFormatOf(byteTokenizer({ chatTemplate }));
    expect(found).toMatchObject(format);
    expect(found.tags !== null).toBe(hasTags);
  });
});

const tagged: ToolCallReaderOptions = {
  format: toolCallFormatOf(byteTokenizer({ chatTemplate: hermes })),
  names: new Set(['weather', 'clock']),
  maxCalls: Infinity,
};
const list: ToolCallReaderOptions = {
  ...tagged,
  format: { tags: null, isList: true, argumentsName: 'arguments' },
};
const single: ToolCallReaderOptions = {
  ...tagged,
  format: { tags: null, isList: false, argumentsName: 'parameters' },
};

/** The text and the calls of an answer that comes in these pieces. */
function read(
  options: ToolCallReaderOptions,
  pieces: readonly string[],
): { text: string; calls: string[] } {
  const reader = new ToolCallReader(options);
  const parts: AnswerPart[] = [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()];
  return {
    text: parts.map((part) => (part.kind === 'content' ? part.text : '')).join(''),
    calls: parts.flatMap((part) =>
      part.kind === 'call' ? [`${part.call.name} ${part.call.arguments}`] : [],
    ),
  };
}

const call = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>';
const answers: readonly (readonly [ToolCallReaderOptions, string, string, string[]])[] = [
  [tagged, 'Well <b> a < b', 'Well <b> a < b', []],
  [tagged, call, '', ['clock {}']],
  [
    tagged,
    `Let me see. ${call}\n${call.replace('{}', '{"a":[1]}')}\n`,
    'Let me see.',
    ['clock {}', 'clock {"a":[1]}'],
  ],
  [{ ...tagged, maxCalls: 1 }, `${call}${call}`, '', ['clock {}']],
  [tagged, `${call} and more`, ' and more', ['clock {}']],
  // What is no call of a tool that there is, or not whole, is text.
  [tagged, call.replace('clock', 'other'), call.replace('clock', 'other'), []],
  [tagged, '<tool_call>{]</tool_call>', '<tool_call>{]</tool_call>', []],
  [tagged, call.slice(0, 40), call.slice(0, 40), []],
  [tagged, 'a <tool_c', 'a <tool_c', []],
  [
    list,
    '[{"name":"clock","arguments":{}},{"name":"weather","arguments":{"city":"Oslo"}}]',
    '',
    ['clock {}', 'weather {"city":"Oslo"}'],
  ],
  [list, '[1, 2]', '[1, 2]', []],
  [list, 'No.', 'No.', []],
  [single, '{"name": "clock", "parameters": {}}', '', ['clock {}']],
  [single, '{"name": "Ada", "parameters": {}}', '{"name": "Ada", "parameters": {}}', []],
  [single, '{"name": "clock", "arguments": {}}', '{"name": "clock", "arguments": {}}', []],
];

test.each(answers)(
  'An answer has its text and its calls, in whatever pieces it comes: %#',
  (...each) => {
    const [options, answer, text, calls] = each;
    expect(read(options, [answer])).toEqual({ text, calls });
    fc.assert(
      fc.property(fc.array(fc.nat(answer.length), { maxLength: 8 }), (cuts) => {
        const places = [0, ...cuts.toSorted((a, b) => a - b), answer.length];
        const pieces = places.slice(1).map((end, index) => answer.slice(places[index], end));
        expect(read(options, pieces)).toEqual({ text, calls });
      }),
      { numRuns: 60 },
    );
  },
);

describe('The client of OpenAI', () => {
  const messages = [{ role: 'user' as const, content: 'Well?' }];
  const asked = { model: 'small', messages, max_tokens: 200, tools: [weather, clock] };

  test.each([
    ['Hermes', hermes],
    ['Mistral', mistral],
    ['Llama 3', llama],
  ])('gets a call that it requires, also as a stream, of a model like %s', async (_, template) => {
    const client = clientOf(template);
    for (const seed of [1, 2, 3]) {
      const body = { ...asked, seed, tool_choice: 'required' as const };
      const { choices } = await client.chat.completions.create(body);
      const [choice] = choices;
      expect(choice?.finish_reason).toBe('tool_calls');
      expect(choice?.message.content).toBeNull();
      const [own] = choice?.message.tool_calls ?? [];
      if (own?.type !== 'function') expect.fail();
      const values: unknown = JSON.parse(own.function.arguments);
      if (own.function.name === 'clock') expect(values).toEqual({});
      else expect(values).toMatchObject({ city: expect.stringMatching(/^(Oslo|Rome)$/) });

      const stream = client.chat.completions.stream(body);
      const final = await stream.finalChatCompletion();
      const [streamed] = final.choices[0]?.message.tool_calls ?? [];
      if (streamed?.type !== 'function') expect.fail();
      expect(streamed.function).toMatchObject(own.function);
      expect(final.choices[0]?.finish_reason).toBe('tool_calls');
    }
  });

  test('gets a call of the function that it names, and goes on with its result', async () => {
    const client = clientOf(hermes);
    const tool_choice = { type: 'function' as const, function: { name: 'weather' } };
    const first = await client.chat.completions.create({ ...asked, seed: 1, tool_choice });
    const [message] = first.choices.map((choice) => choice.message);
    const [own] = message?.tool_calls ?? [];
    if (message === undefined || own?.type !== 'function') expect.fail();
    expect(own.function.name).toBe('weather');
    const result = { role: 'tool' as const, tool_call_id: own.id, content: 'Rain.' };
    const next = await client.chat.completions.create({
      ...asked,
      messages: [...messages, message, result],
      max_tokens: 3,
    });
    expect(next.choices[0]?.message.content).toEqual(expect.any(String));
  });

  test('gets a call that a model makes by itself, and text if it makes none', async () => {
    const client = clientOf(hermes);
    const made = (text: string) => {
      const body = { ...asked, structured_outputs: { choice: [text] } };
      return client.chat.completions.create(body);
    };
    const called = await made('Yes: <tool_call>{"name":"clock","arguments":{}}</tool_call>');
    expect(called.choices[0]).toMatchObject({
      message: { content: 'Yes:', tool_calls: [{ function: { name: 'clock', arguments: '{}' } }] },
      finish_reason: 'tool_calls',
    });
    const text = await made('No <b>.');
    expect(text.choices[0]).toMatchObject({
      message: { content: 'No <b>.' },
      finish_reason: 'stop',
    });
    expect(text.choices[0]?.message.tool_calls).toBeUndefined();
  });

  test('is told what is wrong with tools', async () => {
    const client = clientOf(hermes);
    const wrong = async (body: object, own = client): Promise<string> => {
      const error: unknown = await own.chat.completions
        .create({ ...asked, ...body })
        .catch((cause: unknown) => cause);
      if (!(error instanceof BadRequestError)) expect.fail();
      return `${error.param}: ${error.message}`;
    };
    const choice = (name: string) => ({ type: 'function', function: { name } });
    expect(await wrong({ tool_choice: choice('none of them') })).toMatch(/^tool_choice: .*no tool/);
    expect(await wrong({ tools: [], tool_choice: 'required' })).toMatch(/^tool_choice: /);
    expect(await wrong({ tools: [clock, clock] })).toContain('two have the same name');
    const minimum = { type: 'integer', minimum: 3 };
    const parameters = { type: 'object', properties: { minimum } };
    const tools = [{ ...clock, function: { name: 'clock', parameters } }];
    expect(await wrong({ tools, tool_choice: 'required' })).toMatch(/^tools: .*'minimum'/);
    expect(await wrong({ tool_choice: 'required', structured_outputs: { regex: 'a' } })).toContain(
      'another form',
    );
    const broken = {
      role: 'assistant',
      content: '',
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'clock', arguments: '{' } }],
    };
    expect(await wrong({ messages: [...messages, broken] })).toContain('are not JSON');
    const plain = clientOf('{% for message in messages %}{{ message.content }}{% endfor %}');
    expect(await wrong({}, plain)).toContain('has no tools');
    const code = clientOf(templateWith('<function={{ call.name }}>'));
    expect(await wrong({}, code)).toContain('writes no calls of tools as JSON');
  });
});

describe('The newer interface', () => {
  const ofTool = ({ type, function: own }: typeof clock | typeof weather) => {
    const parameters = { type: 'object', properties: {} };
    return { type, parameters, strict: false, ...own };
  };
  const asked = {
    model: 'small',
    input: 'Well?',
    max_output_tokens: 200,
    tools: [ofTool(weather), ofTool(clock)],
  };

  test('has a call as an item, and goes on with its output', async () => {
    const client = clientOf(hermes);
    const tool_choice = { type: 'function' as const, name: 'weather' };
    const first = await client.responses.create({ ...asked, tool_choice });
    expect(first).toMatchObject({ status: 'completed', tool_choice, tools: asked.tools });
    const [own] = first.output;
    if (own?.type !== 'function_call') expect.fail();
    expect(first.output).toHaveLength(1);
    expect(own).toMatchObject({ name: 'weather', status: 'completed' });
    expect(JSON.parse(own.arguments)).toMatchObject({
      city: expect.stringMatching(/^(Oslo|Rome)$/),
    });
    const output = {
      type: 'function_call_output' as const,
      call_id: own.call_id,
      output: 'Rain.',
    };
    const input = [{ role: 'user' as const, content: 'Well?' }, own, output];
    const next = await client.responses.create({ ...asked, input, max_output_tokens: 3 });
    const [message] = next.output;
    if (message?.type !== 'message') expect.fail();
    expect(message.status).toBe('incomplete');
    // A message of an answer can be sent back, too.
    const again = [...input, message, { role: 'user' as const, content: 'And?' }];
    const last = await client.responses.create({ ...asked, input: again, max_output_tokens: 3 });
    expect(last.usage?.input_tokens).toBeGreaterThan(next.usage?.input_tokens ?? Infinity);
  });

  test('shows a model the same conversation as chats do', async () => {
    const engine = engineOf(hermes);
    const seen: (readonly number[])[] = [];
    const generate = engine.generate.bind(engine);
    engine.generate = (request) => {
      if (typeof request.prompt !== 'string') seen.push(request.prompt);
      return generate(request);
    };
    const client = clientOf(engine);
    const written = { name: 'clock', arguments: '{"a": 1}' };
    await client.chat.completions.create({
      model: 'small',
      max_tokens: 1,
      tools: asked.tools.map(({ type, ...own }) => ({ type, function: { ...own } })),
      messages: [
        { role: 'system', content: 'Be short.' },
        { role: 'user', content: 'Well?' },
        {
          role: 'assistant',
          content: 'Hm.',
          tool_calls: [{ id: 'call_1', type: 'function', function: written }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'Noon.' },
      ],
    });
    await client.responses.create({
      model: 'small',
      max_output_tokens: 1,
      tools: asked.tools,
      instructions: 'Be short.',
      input: [
        { role: 'user', content: 'Well?' },
        { role: 'assistant', content: 'Hm.' },
        { type: 'function_call', call_id: 'call_1', ...written },
        { type: 'function_call_output', call_id: 'call_1', output: 'Noon.' },
      ],
    });
    expect(seen[1]).toEqual(seen[0]);
  });

  test('tells of text and calls by the events that its client knows', async () => {
    const client = clientOf(hermes);
    const call = '<tool_call>{"name":"clock","arguments":{"a":1}}</tool_call>';
    const body = { ...asked, structured_outputs: { choice: [`Yes: ${call}`] } };
    const stream = client.responses.stream(body);
    const types: string[] = [];
    for await (const { type } of stream) if (types.at(-1) !== type) types.push(type);
    expect(types).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
      'response.completed',
    ]);
    const { output } = await stream.finalResponse();
    expect(output).toMatchObject([
      { type: 'message', content: [{ text: 'Yes:' }] },
      { type: 'function_call', name: 'clock', arguments: '{"a":1}' },
    ]);
  });

  test('refuses an output of no call, a choice that is no tool, and two forms', async () => {
    const client = clientOf(hermes);
    const wrong = (body: object) => client.responses.create({ ...asked, ...body });
    const output = { type: 'function_call_output', call_id: 'call_1', output: 'Noon.' };
    await expect(wrong({ input: [output] })).rejects.toMatchObject({ status: 400, param: 'input' });
    const tool_choice = { type: 'function', name: 'none of them' };
    await expect(wrong({ tool_choice })).rejects.toMatchObject({ param: 'tool_choice' });
    const text = { format: { type: 'json_object' } };
    await expect(wrong({ tool_choice: 'required', text })).rejects.toThrow('another form');
    const [input, tools] = [[{ type: 'reasoning' }], [{ type: 'web_search' }]];
    await expect(wrong({ input })).rejects.toMatchObject({ status: 400 });
    await expect(wrong({ tools })).rejects.toMatchObject({ status: 400 });
  });
});
