/** The page with a chat. Its style and its script are files of their own, so that a browser runs nothing else. */
export const pageHtml = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>Shardwise</title>
<link rel="stylesheet" href="page.css">
<link rel="icon" href="data:,">
<script type="module" src="page.js"></script>
</head>
<body>
<header>
<h1>Shardwise</h1>
<label>Model <select id="model"></select></label>
<form id="key-form" hidden>
<label>API key <input id="key" type="password" autocomplete="off"></label>
<button>Use it</button>
</form>
</header>
<main>
<section class="chat" aria-label="Chat">
<div id="messages" role="log" aria-live="polite" tabindex="0"></div>
<form id="ask">
<textarea id="text" rows="2" aria-label="Message" placeholder="Ask something" required></textarea>
<div class="controls">
<label>Mode <select id="mode"><option value="chat">chat</option><option value="text">continue a text</option></select></label>
<label>Temperature <input id="temperature" type="number" min="0" max="2" step="0.1" value="0.7"></label>
<label>Tokens <input id="tokens" type="number" min="1" step="1" value="128"></label>
<span class="buttons"><button id="clear" type="button">Clear</button><button id="stop" type="button" hidden>Stop</button><button id="send" class="main">Send</button></span>
</div>
</form>
</section>
<section class="engine" aria-label="Engine">
<dl class="tiles">
<div><dt>tokens/s</dt><dd id="speed">0</dd></div>
<div><dt>running</dt><dd id="running">0</dd></div>
<div><dt>waiting</dt><dd id="waiting">0</dd></div>
<div><dt>blocks used</dt><dd id="used">0</dd></div>
<div><dt>preemptions</dt><dd id="preemptions">0</dd></div>
</dl>
<h2>Blocks of the cache</h2>
<p id="blocks-text" class="soft"></p>
<div id="blocks" role="img" aria-labelledby="blocks-text"></div>
<p class="soft legend"><span><i class="shared s0"></i>several sequences</span><span><i class="kept"></i>kept for prompts that begin alike</span><span><i></i>free</span></p>
<ul id="sequences"></ul>
</section>
</main>
</body>
</html>
`;
