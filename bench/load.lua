-- Requests of wrk, and a report with more percentiles than wrk prints by itself, in microseconds.
--
--     wrk -s bench/load.lua URL                          the URL
--     wrk -s bench/load.lua URL -- pipelined 16          the URL, 16 requests at once
--     wrk -s bench/load.lua URL -- rotating FILE         the targets of FILE, one per line, in order
--     wrk -s bench/load.lua URL -- random FILE           the targets of FILE, at random
--
-- All requests are formatted in advance: during the run, the script only selects a string.

local function formatted(file)
   local requests = {}
   for target in io.lines(file) do
      requests[#requests + 1] = wrk.format(nil, target)
   end
   return requests
end

local started = 0

-- Each thread has a number, so threads don't all request the same target at the same time.
function setup(thread)
   thread:set("number", started)
   started = started + 1
end

function init(args)
   local kind = args[1]
   if kind == "pipelined" then
      local all = string.rep(wrk.format(), tonumber(args[2]))
      request = function() return all end
   elseif kind == "rotating" then
      local requests = formatted(args[2])
      local last = number * 7
      request = function()
         last = last + 1
         return requests[last % #requests + 1]
      end
   elseif kind == "random" then
      local requests = formatted(args[2])
      math.randomseed(number + 1)
      request = function() return requests[math.random(#requests)] end
   end
end

function done(summary, latency, requests)
   local errors = summary.errors
   local function report(name, value) io.write(string.format("%s: %d\n", name, value)) end
   report("responses", summary.requests)
   report("microseconds", summary.duration)
   report("socket errors", errors.connect + errors.read + errors.write + errors.timeout)
   report("error statuses", errors.status)
   for _, percent in ipairs({ 50, 90, 99, 99.9 }) do
      report(string.format("p%g", percent), latency:percentile(percent))
   end
   report("longest", latency.max)
end
