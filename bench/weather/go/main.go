// The weather forecast with Go's net/http: weather ADDRESS [--tls CERTIFICATE KEY].
package main

import (
	"encoding/json"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

var summaries = []string{
	"Freezing", "Bracing", "Chilly", "Cool", "Mild", "Warm", "Balmy", "Hot", "Sweltering", "Scorching",
}

type forecast struct {
	Date         string  `json:"date"`
	TemperatureC int     `json:"temperatureC"`
	Summary      string  `json:"summary"`
	TemperatureF float64 `json:"temperatureF"`
}

func weatherForecast(response http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	forecasts := make([]forecast, 5)
	for i := range forecasts {
		celsius := rand.IntN(75) - 20
		forecasts[i] = forecast{
			// The format of time.Time writes `Z` for UTC, not an offset.
			Date:         now.AddDate(0, 0, i+1).Format("2006-01-02T15:04:05.0000000-07:00"),
			TemperatureC: celsius,
			Summary:      summaries[rand.IntN(len(summaries))],
			TemperatureF: 32 + float64(celsius)/0.5556,
		}
	}
	body, err := json.Marshal(forecasts)
	if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	response.Write(body)
}

func main() {
	http.HandleFunc("GET /weatherforecast", weatherForecast)
	address := os.Args[1]
	if len(os.Args) == 5 && os.Args[2] == "--tls" {
		log.Fatal(http.ListenAndServeTLS(address, os.Args[3], os.Args[4], nil))
	}
	log.Fatal(http.ListenAndServe(address, nil))
}
